"""Growing trees level by level from the histograms of all records.

Source: Friedman 2001 (doi:10.1214/aos/1013203451); histograms and second-order steps as in Chen and Guestrin 2016
(doi:10.1145/2939672.2939785), splits as in scikit-learn's HistGradientBoosting. With the sums of gradients G and
curvatures H, a leaf has the value v = -G / (H + l2), and a split the gain G v - G_l v_l - G_r v_r.

*Whole numbers*: the histogram of a node less that of one child is that of the other child, exactly. So only the child
with fewer records is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.seeding import rng_for
from fedlearn.private_trees.exact.flat_trees import CODES, Trees
from fedlearn.private_trees.exact.kernels import best_split, value_of

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rule:
    """How trees grow; parameters as in scikit-learn's HistGradientBoosting."""

    learning_rate: float
    max_depth: int
    max_leaf_nodes: int
    min_samples_leaf: int
    l2_regularization: float
    max_features: float
    seed: int = 0

    def value(self, totals: IntArray, limits: FloatArray, units: FloatArray) -> float:
        """Return the value of a leaf before the learning rate."""
        return float(value_of(totals[0] * units[0], totals[1] * units[1], self.l2_regularization, limits))

    def can_split(self, trees: Trees, node: int) -> bool:
        """Return whether a node has records enough, and is not too deep."""
        return bool(trees.depth[node] < self.max_depth and trees.count[node] >= 2 * self.min_samples_leaf)

    def columns_of(self, node: int, columns: int) -> NDArray[np.bool_]:
        """Return (columns,) whether a node may test a column."""
        taken = np.ones(columns, np.bool_)
        if self.max_features < 1:
            wanted = max(1, round(self.max_features * columns))
            taken[:] = rng_for(self.seed, purpose="columns", node=node).permutation(columns) < wanted
        return taken


class Split(NamedTuple):
    """The best split of a node: its test, and (2, 3) the totals of its two sides."""

    node: int
    column: int
    bin: int
    left: NDArray[np.uint8]
    gain: float
    totals: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Grower:
    """Grows trees by public facts and sums.

    Parameters
    ----------
    rule
        How trees grow.
    columns
        As in `kernels.best_split`.
    units
        (2,) gradient and curvature of 1 in the sums.
    """

    rule: Rule
    columns: IntArray
    units: FloatArray

    def grown(
        self, trees: Trees, asked: IntArray, sums: IntArray, parents: IntArray
    ) -> tuple[Trees, IntArray, IntArray]:
        """Return the trees with one level more, and what to ask next: nodes, and the histograms of their parents.

        Parameters
        ----------
        asked
            Nodes of which the histograms were asked for: roots, or one child of each node that was split last.
        sums, parents
            (asked, cells, 3) gradient, curvature and number of records in each cell, of these nodes and of their
            parents; roots have no parents.
        """
        if len(parents):
            siblings = np.where(np.isin(asked, trees.child), asked + 1, asked - 1)
            nodes, sums = np.concatenate([asked, siblings]), np.concatenate([sums, parents - sums])
        else:
            nodes, trees = asked, self._with_roots(trees, asked, sums)
        splits, histograms = [], []
        for place in np.argsort(nodes).tolist():
            if split := self._split(trees, int(nodes[place]), sums[place]):
                splits.append(split)
                histograms.append(sums[place])
        first = len(trees.feature)
        trees = self._with_splits(trees, splits)
        pairs = [(first + 2 * place, first + 2 * place + 1) for place in range(len(splits))]
        goes_on = [any(self.rule.can_split(trees, child) for child in pair) for pair in pairs]
        smaller = [min(pair, key=lambda child: trees.count[child]) for pair in pairs]
        asked = np.array([each for each, goes in zip(smaller, goes_on, strict=True) if goes], np.int64)
        kept = [each for each, goes in zip(histograms, goes_on, strict=True) if goes]
        return trees, asked, np.array(kept, np.int64).reshape(len(kept), *sums.shape[1:])

    def _split(self, trees: Trees, node: int, sums: IntArray) -> Split | None:
        """Return the best split of a node; None where no split gains anything."""
        rule, left = self.rule, np.zeros(CODES, np.bool_)
        if not rule.can_split(trees, node):
            return None
        taken, limits = rule.columns_of(node, len(self.columns)), trees.limits[node]
        parameters = np.array([rule.l2_regularization, rule.min_samples_leaf])
        gain, column, code, *of_left = best_split(sums, self.columns, taken, self.units, parameters, limits, left)
        if column < 0:
            return None
        totals = np.array([of_left, self._totals(sums) - of_left], np.int64)
        return Split(node, column, code, np.packbits(left, bitorder="little"), gain, totals)

    def _with_splits(self, trees: Trees, splits: Sequence[Split]) -> Trees:
        """Return the trees with two new leaves for each split."""
        if not splits:
            return trees
        nodes, column, code, left, gain, totals = map(np.array, zip(*splits, strict=True))
        first = len(trees.feature) + 2 * np.arange(len(splits))
        limits = np.concatenate([self._limits(trees.limits[each.node], each) for each in splits])
        trees = trees.changed(nodes, feature=column, bin=code, left=left, gain=gain, child=first)
        return trees.with_leaves(np.repeat(trees.depth[nodes] + 1, 2), **self._leaf(totals.reshape(-1, 3), limits))

    def _with_roots(self, trees: Trees, roots: IntArray, sums: IntArray) -> Trees:
        """Return the trees with what the first sums tell of their roots."""
        totals = np.array([self._totals(each) for each in sums])
        return trees.changed(roots, **self._leaf(totals, trees.limits[roots]))

    def _leaf(self, totals: IntArray, limits: FloatArray) -> dict[str, FloatArray | IntArray]:
        """Return the arrays of nodes that have not been split, of their totals (nodes, 3)."""
        values = [self.rule.value(*each, self.units) for each in zip(totals, limits, strict=True)]
        value = self.rule.learning_rate * np.array(values)
        return {"value": value, "weight": totals[:, 1] * self.units[1], "count": totals[:, 2], "limits": limits}

    def _limits(self, before: FloatArray, split: Split) -> FloatArray:
        """Return (2, 2) the limits of both children: their values lie on different sides of the middle of both."""
        limits, sign = np.array([before, before]), int(self.columns[split.column, 3])
        if sign:
            middle = sum(self.rule.value(each, before, self.units) for each in split.totals) / 2
            limits[0, (1 + sign) // 2] = limits[1, (1 - sign) // 2] = middle
        return limits

    def _totals(self, sums: IntArray) -> IntArray:
        """Return (3,) the sums of all records: those of the first column's cells."""
        return np.asarray(sums[: self.columns[0, 1] + 1].sum(axis=0))
