"""Reports and measures of single nodes: the rows of nodes.csv, and how the headline is spread over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fedlearn import wire
from fedlearn.core.cohort import At, Fate
from fedlearn.core.gains import Compared, Gains, beside
from fedlearn.core.metric import ALONE, TEST_EXAMPLES, Measured
from fedlearn.core.seeding import rng_for
from fedlearn.core.spread import Spread
from fedlearn.core.state import State
from fedlearn.runs.nodes import EXAMPLES, PARTITION, ROUND, Row
from server.attempt import Reporting
from server.phases.answers import answers_to, finite, measured_by, sound_answers
from server.run import ServerRun


class Measure(NamedTuple):
    """The metrics of the new state on one node, and how many of its own examples they are of."""

    partition_id: int
    examples: int
    means: Measured


def measured_on_nodes(run: ServerRun, state: State, at: At) -> Sequence[Measure]:
    """Let as many nodes as ``evaluation.nodes`` says measure the state, each on examples of its own.

    They are drawn at random among those that are connected; those of which nothing comes within the reporting deadline,
    or nothing sound, are left out.
    """
    if not run.spread or not run.config.is_evaluated(at.round_number):
        return ()
    nodes, deadline = _drawn(run, at), run.rounds.reporting_deadline
    record, kinds, names = wire.pack_arrays(state), run.config.evaluation.kinds, run.measured_by_nodes
    number, is_beside = at.round_number, bool(kinds)
    messages = [wire.evaluation(node, record, round_number=number, ttl=deadline, beside=is_beside) for node in nodes]
    measures = []
    partitions = {node: run.directory.partition_of(node) for node in nodes}
    replies = answers_to(run, messages, deadline)
    of_some = [name for name in names if name.endswith(tuple(f"_{kind}" for kind in kinds))]
    for place, reply in sound_answers(run, replies, partitions, at.round_number, of_some=of_some).items():
        examples, means = measured_by(reply)
        derived = run.model_metrics.completed_on_nodes(means, kinds)
        measured = finite({**run.model_metrics.completed(means), **derived}, names)
        measures.append(Measure(partitions[nodes[place]], examples, measured))
    return measures


def _drawn(run: ServerRun, at: At) -> list[int]:
    """Return the nodes that are to measure, in the order of their partitions."""
    nodes = run.directory.nodes(ttl=run.rounds.reporting_deadline)
    wanted = run.config.evaluation.nodes
    if wanted >= len(nodes):
        return [int(node) for node in nodes]
    rng = rng_for(run.config.seed, purpose="nodes that measure", round_number=at.round_number)
    return [int(nodes[place]) for place in sorted(rng.choice(len(nodes), wanted, replace=False).tolist())]


def spread_of(run: ServerRun, measures: Sequence[Measure]) -> Measured:
    """Return how the headline is spread over the nodes, of their models and beside them; nothing if none is asked."""
    if run.spread is None:
        return {}
    metric, kinds = run.spread.metric, run.config.evaluation.kinds
    found = run.spread.of(_values(measures, metric.name))
    for kind in kinds:
        column = beside(metric, kind)
        found |= Spread(column).of(_values(measures, column.name))
    if ALONE in kinds:
        found |= Gains(metric).of(list(_compared(measures, metric.name)))
    return found


def _values(measures: Sequence[Measure], name: str) -> list[tuple[int, float]]:
    return [(m.examples, value) for m in measures if (value := m.means.get(name)) is not None]


def _compared(measures: Sequence[Measure], name: str) -> Iterator[Compared]:
    for m in measures:
        got, alone = m.means.get(name), m.means.get(f"{name}_{ALONE}")
        if got is not None and alone is not None:
            yield Compared(m.examples, got, alone)


def rows_of(run: ServerRun, reporting: Reporting, measures: Sequence[Measure], at: At) -> list[Row]:
    """Return a row for each node that has reported or measured, in the order of partitions; none of a private run."""
    if run.is_private or run.config.protects_nodes:
        return []
    rows: dict[int, dict[str, float | int | None]] = {}
    for member, report in zip(reporting.members, reporting.reports, strict=True):
        if report.fate is Fate.REPORTED:
            rows[member.partition_id] = {EXAMPLES: report.num_examples, **_with_derived(run, report.metrics)}
    for measure in measures:
        row = rows.setdefault(measure.partition_id, {})
        row |= {TEST_EXAMPLES: measure.examples, **measure.means}
    where = {ROUND: at.round_number}
    return [{**where, PARTITION: partition_id, **rows[partition_id]} for partition_id in sorted(rows)]


def _with_derived(run: ServerRun, metrics: Mapping[str, float]) -> dict[str, float | int]:
    """Return a report's metrics, with what follows from those before and after training, as the perplexity."""
    found: dict[str, float | int] = {**metrics, **run.model_metrics.completed_on_nodes(metrics)}
    if TEST_EXAMPLES in found:
        found[TEST_EXAMPLES] = int(found[TEST_EXAMPLES])
    return found
