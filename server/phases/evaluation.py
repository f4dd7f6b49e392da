"""Evaluation of the global model: on the server's test set, or through the nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite

from flwr.app import Message, MetricRecord

from fedlearn import wire
from fedlearn.cohort import At, Member
from fedlearn.errors import Refused
from fedlearn.metrics import Measured
from fedlearn.models import NOTHING, Evaluation
from fedlearn.models.loaded import dataset_of, evaluate_part
from fedlearn.state import State
from server.phases.configuration import evaluation_messages
from server.run import ServerRun

PART = 1000  # test examples evaluated by one worker in one go
EVALUATE_PART = f"{evaluate_part.__module__}:{evaluate_part.__name__}"


def is_due(run: ServerRun, round_number: int) -> bool:
    """Return whether the state after this round is to be evaluated."""
    return run.config.evaluation.where != "none" and run.config.is_evaluated(round_number)


def evaluate(
    run: ServerRun, state: State, cohort: Sequence[Member], names: Sequence[str], *, round_number: int
) -> Measured:
    """Return what `names` are for the state; None for what is not finite or was not measured."""
    if run.config.evaluation.where == "nodes":
        means = _through_nodes(run, state, cohort, round_number)
    else:
        means = _on_test_set(run, state)
    return finite(run.model_metrics.completed(means), names)


def finite(means: Mapping[str, object], names: Sequence[str]) -> dict[str, float | None]:
    """Return the means of these names; None for what is not finite or was not measured."""
    values = {name: means.get(name) for name in names}
    return {
        name: float(value) if isinstance(value, int | float) and isfinite(value) else None
        for name, value in values.items()
    }


def sound_metrics(reply: Message, max_examples: int) -> tuple[int, dict[str, float]] | None:
    """Return on how many examples a node has measured what; None of an answer of which nothing can be used."""
    if not reply.has_content() or not _is_sound(reply, max_examples):
        return None
    metrics = _metrics_of(reply)
    means = {name: float(value) for name, value in metrics.items() if isinstance(value, int | float)}
    return int(means.pop(wire.NUM_EXAMPLES)), means


def _on_test_set(run: ServerRun, state: State) -> Mapping[str, object]:
    count = len(dataset_of(run.config).test)
    parts = [(start, min(start + PART, count)) for start in range(0, count, PART)]
    total = NOTHING
    for part in run.exchange.compute(EVALUATE_PART, state, parts):
        assert isinstance(part, Evaluation)
        total += part
    return total.means


def _through_nodes(run: ServerRun, state: State, cohort: Sequence[Member], round_number: int) -> Mapping[str, object]:
    deadline = run.config.rounds.reporting_deadline
    written = evaluation_messages(run, state, cohort, round_number=round_number)
    replies = answers_to(run, [wire.with_ttl(message, deadline) for message in written], deadline)
    sound = _sound(replies.values(), max_examples=run.config.gate.max_examples)
    with run.draws.to_compute(run.strategy, "evaluate", At(round_number, 0)):
        return run.strategy.aggregate_evaluate(round_number, sound) or MetricRecord()


def answers_to(run: ServerRun, messages: Sequence[Message], deadline: float) -> dict[int, Message]:
    """Return what comes within the deadline, by the places of `messages` and in their order.

    A mean depends on the order of its terms.

    Flower's own `send_and_receive` looks every three seconds.
    """
    until = run.clock.now() + deadline
    pending = run.exchange.send(messages, range(len(messages)), book="down")
    replies: dict[int, Message] = {}
    for _ in run.exchange.looks(until=until):
        replies |= {place: reply for place, reply, again in pending.heard() if not again}
        if not pending.open:
            break
    return {place: replies[place] for place in sorted(replies)}


def _sound(replies: Iterable[Message], *, max_examples: int) -> list[Message]:
    """Return the replies that can be averaged: strategies raise for others, or let one of them spoil the mean."""
    sound = [reply for reply in replies if reply.has_content() and _is_sound(reply, max_examples)]
    names = Counter(frozenset(_metrics_of(reply)) for reply in sound).most_common(1)
    return [reply for reply in sound if _metrics_of(reply).keys() == names[0][0]]


def _is_sound(reply: Message, max_examples: int) -> bool:
    try:
        num_examples = wire.read_num_examples(reply.content)
    except Refused:
        return False
    numbers = _metrics_of(reply).values()
    return 1 <= num_examples <= max_examples and all(isinstance(n, int | float) and isfinite(n) for n in numbers)


def _metrics_of(reply: Message) -> MetricRecord:
    return wire.only(reply.content, MetricRecord)
