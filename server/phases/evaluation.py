"""Evaluation of the global model: on the server's test set, or through the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from flwr.app import ConfigRecord, Message, MetricRecord

from fedlearn import wire
from fedlearn.core.cohort import At, Member
from fedlearn.core.state import State
from fedlearn.models import NOTHING, Evaluation
from fedlearn.models.loaded import dataset_of, evaluate_part, rows_measured, scores_of_test_set
from server.attempt import Reporting
from server.feature import Measures
from server.phases.evaluation_answers import answers_to, finite, sound_answers, take_scores
from server.run import ServerRun

PART = 1000  # test examples evaluated by one worker in one go


def is_due(run: ServerRun, round_number: int) -> bool:
    """Return whether the state after this round is to be evaluated."""
    return run.config.evaluation.where != "none" and run.config.is_evaluated(round_number)


def evaluate(
    run: ServerRun, state: State, reporting: Reporting, names: Sequence[str], *, round_number: int
) -> Measures:
    """Return the metrics `names` of the state; None for a metric that is not finite or was not measured.

    Where nodes measure it, those of the cohort do that have sent a report: one that hangs costs one deadline, not two.
    """
    if run.config.evaluation.where == "nodes":
        means = _through_nodes(run, state, reporting, round_number)
        return Measures(finite(run.traits.metrics.completed(means), names))
    return measures_of(run, on_test_set(run, state), names)


def measures_of(run: ServerRun, total: Evaluation, names: Sequence[str]) -> Measures:
    """Return the metrics `names` of an evaluation, and its confusion."""
    return Measures(finite(run.traits.metrics.completed(total.means), names), confusion=total.confusion)


def on_test_set(run: ServerRun, state: State, *, once: bool = False) -> Evaluation:
    """Return the evaluation of a state on the rows that rounds measure, made by the workers.

    With `once`, the rows are those that are measured after the last round (`rows_measured`).
    """
    parts = [(*part, once) for part in parts_of(run, once=once)]
    total = NOTHING
    deadline = run.rounds.reporting_deadline if run.exchange.timed is None else None  # in virtual seconds
    for part in run.exchange.compute(evaluate_part, state, parts, seconds=deadline):
        assert isinstance(part, Evaluation)
        total += part
    if total.outputs:
        (scores,) = run.exchange.compute(scores_of_test_set, {}, [(total.outputs, once)], seconds=deadline)
        total = replace(total, outputs=(), scores=scores)
    return total


def parts_of(run: ServerRun, *, once: bool = False) -> list[tuple[int, int]]:
    """Return the parts of the rows that are measured, as their first places and those behind their last."""
    count = len(rows_measured(run.config, dataset_of(run.config), once=once))
    return [(start, min(start + PART, count)) for start in range(0, count, PART)]


def _through_nodes(run: ServerRun, state: State, reporting: Reporting, round_number: int) -> Mapping[str, object]:
    deadline = run.rounds.reporting_deadline
    members = list({member.node_id: member for member in reporting.members}.values())  # one may have reported twice
    written = _messages(run, state, members, round_number=round_number)
    answered = reporting.answered
    asked = [message for message in written if message.metadata.dst_node_id in answered]
    replies = answers_to(run, [wire.with_ttl(message, deadline) for message in asked], deadline)
    partitions = {member.node_id: member.partition_id for member in members}
    sound = sound_answers(run, replies, partitions, round_number)
    scores = take_scores(run, list(sound.values()))
    with run.draws.to_compute(run.strategy, "evaluate", At(round_number, 0)):
        means = run.strategy.aggregate_evaluate(round_number, list(sound.values())) or MetricRecord()
    return {**means, **scores}


def _messages(run: ServerRun, state: State, cohort: Sequence[Member], *, round_number: int) -> list[Message]:
    """Return the strategy's messages that ask the cohort to evaluate the state."""
    packed = wire.pack_arrays(state)
    with run.draws.to_choose(run.strategy, "evaluation", At(round_number, 0)):
        return list(run.strategy.configure_evaluate(round_number, packed, ConfigRecord(), run.grid_of(cohort)))
