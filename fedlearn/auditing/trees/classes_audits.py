"""Audit cases of the classification trees: many one-node trees at once, each on its own copy of the records.

Each pair of data sets differs by one record, for which the step's privacy loss is as large as we can make it. Every
step is audited by itself: a split that a record makes likelier leads to a label that the record makes less likely, so a
whole tree loses less than its budget and would hide a bug. The exact auditor covers whole trees (`classes_replays.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedlearn.auditing.cases import AuditCase, Release
from fedlearn.privacy.noise import Noise
from fedlearn.private_trees.binning import MISSING
from fedlearn.private_trees.classes import growing
from fedlearn.private_trees.classes.class_counting import ONE, CodedRecords
from fedlearn.private_trees.classes.shares import harmonic_shares

Record = tuple[int, int, int]  # (category of feature 0, of feature 1, class); two of each
Pair: TypeAlias = tuple[list[Record], list[Record]]  # neighbors

EMPTY: list[Record] = []
LONE: list[Record] = [(0, 0, 0)]
# Without the last record both features are equally good; with it only the first one separates the classes.
CROWD: list[Record] = [(0, 0, 0)]
TOLD_APART: list[Record] = [*CROWD, (1, 0, 1)]
THREE, FOUR = (
    3 * LONE,
    4 * LONE,
)  # for the exponential mechanism: the rarer the other label, the closer the loss to its claim
INCOMPLETE: list[Record] = [(MISSING, MISSING, 0)]  # goes to both children, with half its weight each


def copies(records: list[Record], trees: int, sizes: tuple[int, int] = (2, 2)) -> CodedRecords:
    """Return the same records for each of many trees."""
    rows = np.tile(np.array(records, np.int64).reshape(-1, 3), (trees, 1))
    return CodedRecords(
        codes=rows[:, :2].astype(np.uint8),
        labels=rows[:, 2],
        weights=np.full(len(rows), ONE),
        tree=np.repeat(np.arange(trees), len(records)),
        sizes=np.array(sizes),
        num_classes=2,
    )


def _forest(
    records: list[Record], *, depth: int, mechanism: str, epsilon: float = 1.0, shown: slice = slice(None)
) -> Release:
    """Return (trees, 3) the releases of a tree of private choices: feature of the root, labels of the first two nodes.

    `shown` selects among them.
    """

    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        growth, left, counts = growing.grow_by_selection(
            copies(records, draws),
            np.ones((draws, 2), np.bool_),
            epsilon=epsilon,
            shares=harmonic_shares(depth),
            rule=growing.SelectionRule(mechanism, "max"),
            noise=noise,
        )
        value = growing.choose_labels(growth, counts, epsilon=left, mechanism=mechanism, noise=noise)
        table = growing.table_of(growth, value)
        second = np.where(table.first_child[:draws] < 0, np.arange(draws), table.first_child[:draws])
        return np.column_stack([table.feature[:draws], table.value[:draws, 0], table.value[second, 0]])[:, shown]

    return draw


def _leaf_counts(records: list[Record], *, depth: int) -> Release:
    """Return (trees, leaves x classes) the noisy counts of random trees."""

    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        rows, rng = copies(records, draws), np.random.default_rng(0)
        growth = growing.grow_at_random(rows, np.ones((draws, 2), np.bool_), depth=depth, rng=rng)
        counts = growing.count_labels(growth, rows, epsilon=1.0, noise=noise)
        return counts[growth.leaves()].reshape(draws, -1)

    return draw


def _noisy_histograms(records: list[Record]) -> Release:
    """Return (draws,) 1 if SuLQ-ID3 counts no record of class 0, by either of two features of one category.

    A node's counts are the mean over the two features; its child's counts are those by the chosen feature.
    """

    def one(noise: Noise) -> bool:
        _, counts = growing.grow_by_counts(
            copies(records, 1, sizes=(1, 1)), depth=1, epsilon=1.0, criterion="information_gain", noise=noise
        )
        root, child = counts[:, 0]
        return bool(child <= 0 and 2 * root - child <= 0)

    return lambda draws, noise: np.array([one(noise) for _ in range(draws)])


def _case(release: Callable[[list[Record]], Release], pair: Pair, cost: int = 1) -> AuditCase:
    return AuditCase(1.0, release(pair[0]), release(pair[1]), cost=cost)


_LABEL = partial(_forest, depth=0)
# With one level, a third of the harmonic shares is for the split and the rest for the labels; here each costs 1.
_SPLITS = partial(_forest, depth=1, mechanism="permute_and_flip", epsilon=3.0, shown=slice(0, 1))
_LABELS = partial(_forest, depth=1, mechanism="permute_and_flip", epsilon=1.5, shown=slice(1, 3))
_LEAVES = partial(_leaf_counts, depth=1)
_ONE_MORE, _FOURTH = (EMPTY, LONE), (THREE, FOUR)
_SPLIT, _WITHOUT_VALUES = (CROWD, TOLD_APART), (EMPTY, INCOMPLETE)

CLASS_TREE_CASES: dict[str, AuditCase] = {
    "classification, label by permute-and-flip": _case(partial(_LABEL, mechanism="permute_and_flip"), _ONE_MORE),
    "classification, label by the exponential mechanism": _case(partial(_LABEL, mechanism="exponential"), _FOURTH),
    "classification, split": _case(_SPLITS, _SPLIT),
    "classification, labels of a record in pieces": _case(_LABELS, _WITHOUT_VALUES),
    "classification, counts of random leaves": _case(_LEAVES, _ONE_MORE),
    "classification, counts of random leaves, values missing": _case(_LEAVES, _WITHOUT_VALUES),
    "classification, noisy histograms": _case(_noisy_histograms, _ONE_MORE, cost=20),
}
"""Each must stay below its claim."""

CLASS_PLANTED_BUGS: dict[str, AuditCase] = {
    "planted: half the noise on a label": _case(partial(_LABEL, mechanism="permute_and_flip", epsilon=2.0), _ONE_MORE),
}
"""Gives more than it claims: the auditor must refute it."""
