"""The rows of nodes.csv: what single nodes have reported, and measured."""

from __future__ import annotations

from collections.abc import Mapping

from fedlearn.core.cohort import At, Fate
from fedlearn.core.metric import TEST_EXAMPLES
from fedlearn.runs.nodes_csv import EXAMPLES, PARTITION, ROUND, Row
from server.attempt import Reporting
from server.run import ServerRun


def rows_of(run: ServerRun, reporting: Reporting, measured: Mapping[int, Row], at: At) -> list[Row]:
    """Return a row for each node that has reported or measured, in the order of partitions; none of a private run.

    Parameters
    ----------
    measured
        Partition -> what the node has measured of the new state.
    """
    if run.traits.is_private or run.config.protects_nodes:
        return []
    rows: dict[int, Row] = {}
    for member, report in zip(reporting.members, reporting.reports, strict=True):
        if report.fate is Fate.REPORTED:
            known = report.num_examples or None  # a masked report does not say it
            rows[member.partition_id] = {EXAMPLES: known, **_with_derived(run, report.metrics)}
    for partition_id, found in measured.items():
        rows[partition_id] = {**rows.get(partition_id, {}), **found}
    where = {ROUND: at.round_number}
    return [{**where, PARTITION: partition_id, **rows[partition_id]} for partition_id in sorted(rows)]


def _with_derived(run: ServerRun, metrics: Mapping[str, float]) -> dict[str, float | int]:
    """Return a report's metrics, with what follows from those before and after training, as the perplexity."""
    found: dict[str, float | int] = {**metrics, **run.traits.metrics.completed_on_nodes(metrics)}
    if TEST_EXAMPLES in found:
        found[TEST_EXAMPLES] = int(found[TEST_EXAMPLES])
    return found
