"""Which nodes gain: the rows of a run's nodes.csv beside what the same steps alone have given the same nodes.

Alone is what the run itself has measured (``evaluation.beside``), else the local baseline of the same seed, where one
stands among the runs (``training.baseline = "local"``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedlearn.config.baselines import LOCAL
from fedlearn.core.gains import Compared, beside
from fedlearn.core.metric import ALONE, TEST_EXAMPLES, Metric
from fedlearn.report.number_rows import Row, node_rows
from fedlearn.report.stored import StoredRun
from fedlearn.runs.nodes_csv import PARTITION, ROUND


def last_measured(run: StoredRun, metric: Metric) -> dict[int, Row]:
    """Return partition -> row of the last round in which nodes have measured a metric; empty where none has."""
    columns = (ROUND, PARTITION, metric.name, TEST_EXAMPLES)
    rows = [row for row in node_rows(run.folder, columns)[0] if all(row[column] is not None for column in columns)]
    last = max((row[ROUND] or 0 for row in rows), default=0)
    return {int(row[PARTITION] or 0): row for row in rows if row[ROUND] == last}


def compared(run: StoredRun, metric: Metric, others: Sequence[StoredRun] = ()) -> dict[int, Compared]:
    """Return partition -> its two models, of the nodes that have measured both; empty where nothing is alone."""
    if run.settings.get("training.baseline") == LOCAL:
        return {}
    rows, name = last_measured(run, metric), beside(metric, ALONE).name
    if not rows:
        return {}
    if not any(row.get(name) is not None for row in rows.values()):
        name, alone = metric.name, _alone(run, metric, others)
    else:
        alone = rows
    pairs = {node: (row, alone[node].get(name)) for node, row in rows.items() if node in alone}
    return {
        node: Compared(int(row[TEST_EXAMPLES] or 0), float(row[metric.name] or 0), value)
        for node, (row, value) in pairs.items()
        if value is not None
    }


def _alone(run: StoredRun, metric: Metric, others: Sequence[StoredRun]) -> Mapping[int, Row]:
    """Return the rows of the local baseline of a run: same seed, same data dealt in the same way."""
    same = ("seed", "clients", "data.dataset", "data.partition", "data.alpha", "data.classes_per_node", "model.name")
    mine = [run.settings.get(name) for name in same]
    local = (each for each in others if each.settings.get("training.baseline") == LOCAL)
    found = next((each for each in local if [each.settings.get(name) for name in same] == mine), None)
    rows = last_measured(found, metric) if found else {}
    tested = {node: row.get(TEST_EXAMPLES) for node, row in last_measured(run, metric).items()}
    return {node: row for node, row in rows.items() if row.get(TEST_EXAMPLES) == tested.get(node)}
