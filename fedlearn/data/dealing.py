"""Count which node was dealt how many examples of which label, when a simulation begins.

The counts go into the run folder, and the page draws them: so it need not read the data again, nor run their code.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.client_facts import CLASS, EXAMPLE, LABEL, TENTH, Dealt
from fedlearn.data.dataset import Dataset
from fedlearn.data.rows_of_nodes import PartitionTable

MOST_NODES = 1000  # nodes that are counted, the first ones
MOST_MADE = 100  # the same, where examples are made node by node, for the count alone
MOST_LABELS = 1000  # of more labels, as of all words of a language, examples alone are counted
MOST_CELLS = 200_000  # numbers that a run folder holds: of many labels, fewer nodes
MOST_NUMBERS = 1 << 24  # in examples that are made for the count; of larger ones there is no count


def dealt_to(dataset: Dataset, table: PartitionTable) -> Dealt | None:
    """Return the counts of the examples that the first nodes train on; None where making them would take too long."""
    labels, what = _labels(dataset, min(len(table), MOST_MADE)), _what(dataset)
    if labels is None:
        return None
    if labels.min(initial=0) < 0 or labels.max(initial=0) >= MOST_LABELS:  # below 0: what a loss is to ignore
        labels, what = np.zeros_like(labels), EXAMPLE
    rows = int(labels.max(initial=0)) + 1
    most = MOST_NODES if dataset.made is None else MOST_MADE
    nodes = max(1, min(len(table), most, MOST_CELLS // rows))
    counts = np.stack([np.bincount(labels[table.indices(node)], minlength=rows) for node in range(nodes)], axis=1)
    return Dealt(len(table), what, tuple(map(tuple, counts.tolist())))


def _labels(dataset: Dataset, nodes: int) -> NDArray[np.int64] | None:
    """Return the label of each training example; where examples are made node by node, those of the first nodes."""
    if dataset.made is None:
        return dataset.train.labels
    count = nodes * dataset.made.per_node
    if count * math.prod(dataset.spec.shape) > MOST_NUMBERS:
        return None
    return dataset.train.at(slice(0, count)).labels


def _what(dataset: Dataset) -> str:
    """Return the word for the rows of the counts."""
    if dataset.spec.target_shape:
        return EXAMPLE  # several targets have no one label
    if not dataset.spec.classes:
        return TENTH
    return CLASS if dataset.spec.class_names else LABEL
