"""What nodes answer when they are asked to measure a state: who is waited for, and which answers are sound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from typing import cast

from flwr.app import Message, MetricRecord

from fedlearn import wire
from fedlearn.core.cohort import At, Fate, NodeReport
from fedlearn.core.errors import Refused, said
from fedlearn.core.metrics import Metrics
from fedlearn.core.state import State
from server.gate.limits import too_far
from server.run import ServerRun


def answers_to(run: ServerRun, messages: Sequence[Message], deadline: float) -> dict[int, Message]:
    """Return the replies within the deadline, by the places of `messages` and in their order.

    A mean depends on the order of its terms.

    Flower's own `send_and_receive` looks every three seconds.
    """
    until = run.clock.now() + deadline
    pending = run.exchange.send(messages, range(len(messages)), book="down")
    replies: dict[int, Message] = {}
    for _ in run.exchange.looks(until=until):
        replies |= {place: reply for place, reply, again in pending.arrivals() if not again}
        if not pending.open:
            break
    return {place: replies[place] for place in sorted(replies)}


def ask_nodes(
    run: ServerRun, feature: str, said: Mapping[int, Mapping[str, State]], at: At
) -> dict[int, dict[str, State]]:
    """Ask the parts of a feature at nodes; return what came by the reporting deadline: node id -> named parcels.

    Values, names and shapes of the arrays in an answer have not been checked; an answer that does not decode is none.

    Parameters
    ----------
    feature
        The name of the feature at nodes.
    said
        Node id -> the parcels that are sent to it; empty where the question says all.
    """
    deadline, nodes = run.rounds.reporting_deadline, list(said)
    messages = [wire.question(node, feature, at, said[node], ttl=deadline) for node in nodes]
    found: dict[int, dict[str, State]] = {}
    for place, reply in answers_to(run, messages, deadline).items():
        with suppress(Refused):
            found |= {nodes[place]: wire.parcels_in(reply.content)} if reply.has_content() else {}
    return found


def sound_answers(
    run: ServerRun,
    replies: Mapping[int, Message],
    partitions: Mapping[int, int],
    round_number: int,
    *,
    of_some: Collection[str] = (),
) -> dict[int, Message]:
    """Return the replies that can be averaged, by their places; name the nodes of the others in the log.

    Strategies raise for others, or let one of them spoil the mean.

    Parameters
    ----------
    of_some
        The names of what some nodes may not have measured, beside the scores, which no node need have.
    """
    gate = run.config.gate
    metrics = run.traits.metrics
    sound = {place: reply for place, reply in replies.items() if reply.has_content()}
    wrong = {place: why for place, reply in sound.items() if (why := _why_not(reply, metrics, gate.max_examples))}
    may_lack = {*of_some, *(metric.name for metric in metrics.evaluated if metric.is_score)}
    named = {place: frozenset(_metrics_of(reply)) - may_lack for place, reply in sound.items() if place not in wrong}
    alike = Counter(named.values()).most_common(1)
    for place, names in named.items():
        if names != alike[0][0]:
            wrong[place] = "wrong-metric: it has measured other things than most"
    claims = [
        NodeReport(place, Fate.REPORTED, wire.read_num_examples(reply.content))
        for place, reply in sound.items()
        if place not in wrong
    ]
    wrong |= {claims[number].position: why for number, why in too_far(claims, gate).items()}
    for place, why in wrong.items():
        node = sound[place].metadata.src_node_id
        where = {"node": node, "partition": partitions.get(node, -1)}
        run.events.write("evaluation-refused", round=round_number, **where, reason=why)
    return {place: reply for place, reply in sound.items() if place not in wrong}


def take_scores(run: ServerRun, replies: Sequence[Message]) -> dict[str, float]:
    """Take the scores that not all nodes have out of their sound replies; return the mean of each over those that do.

    A strategy averages only what all nodes have measured. The mean is weighted by examples, as that of a strategy.
    """
    records = [_metrics_of(reply) for reply in replies]
    names = [metric.name for metric in run.traits.metrics.evaluated if metric.is_score]
    found: dict[str, float] = {}
    for name in names:
        has = [record for record in records if name in record]
        if len(has) < len(records):
            values = [(cast(float, record[wire.NUM_EXAMPLES]), cast(float, record.pop(name))) for record in has]
            found |= {name: sum(n * each for n, each in values) / sum(n for n, _ in values)} if values else {}
    return found


def _why_not(reply: Message, known: Metrics, max_examples: int) -> str:
    """Return why one reply cannot be averaged, looked at alone; empty if it can."""
    try:
        num_examples, metrics = wire.read_num_examples(reply.content), _metrics_of(reply)
    except Refused as refused:
        return str(refused)
    if not 1 <= num_examples <= max_examples:
        return f"wrong-count: {num_examples} examples, allowed are from 1 to {max_examples}"
    for name, value in metrics.items():
        metric = known.of_node(name)
        if not isinstance(value, int | float) or not isfinite(value) or metric.in_range(value) is None:
            return said(f"wrong-metric: {name} is {value!r}, which must be a finite number {metric.range}".rstrip())
    return ""


def _metrics_of(reply: Message) -> MetricRecord:
    return wire.only(reply.content, MetricRecord)


def finite(means: Mapping[str, object], names: Sequence[str]) -> dict[str, float | None]:
    """Return the means of these names; None for what is not finite or was not measured."""
    values = {name: means.get(name) for name in names}
    return {
        name: float(value) if isinstance(value, int | float) and isfinite(value) else None
        for name, value in values.items()
    }


def measured_by(reply: Message) -> tuple[int, dict[str, float]]:
    """Return on how many examples a node has measured what, in an answer that is sound."""
    means = {name: float(value) for name, value in _metrics_of(reply).items() if isinstance(value, int | float)}
    return int(means.pop(wire.NUM_EXAMPLES)), means
