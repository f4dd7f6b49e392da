"""Growing trees level by level from the histograms of all records.

Source: Friedman 2001 (doi:10.1214/aos/1013203451); histograms and second-order steps as in Chen and Guestrin 2016
(doi:10.1145/2939672.2939785), splits as in scikit-learn's HistGradientBoosting. With the sums of gradients G and
curvatures H, a leaf has the value v = -G / (H + l2), and a split the gain G v - G_l v_l - G_r v_r.

*Whole numbers*: the histogram of a node less that of one child is that of the other child, exactly. So only the child
with fewer records is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.seeding import rng_for
from fedlearn.private_trees.exact.flat_trees import CODES, Trees
from fedlearn.private_trees.exact.kernels import best_splits

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

    def values(self, totals: IntArray, limits: FloatArray, units: FloatArray) -> FloatArray:
        """Return (...,) the values of leaves before the learning rate, of totals (..., 3) and limits (..., 2)."""
        gradient, curvature = totals[..., 0] * units[0], totals[..., 1] * units[1]
        free = -gradient / (curvature + self.l2_regularization + 1e-15)
        return np.asarray(np.minimum(np.maximum(free, limits[..., 0]), limits[..., 1]))

    def can_split(self, trees: Trees, nodes: IntArray) -> NDArray[np.bool_]:
        """Return (nodes,) whether a node has records enough, and is not too deep."""
        return np.asarray((trees.depth[nodes] < self.max_depth) & (trees.count[nodes] >= 2 * self.min_samples_leaf))

    def columns_of(self, node: int, columns: int) -> NDArray[np.bool_]:
        """Return (columns,) whether a node may test a column."""
        wanted = max(1, round(self.max_features * columns))
        return np.asarray(rng_for(self.seed, purpose="columns", node=node).permutation(columns) < wanted)


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
            siblings = asked + 1 - 2 * ((asked - trees.root[-1] - 1) % 2)  # pairs of children follow the last root
            nodes, sums = np.concatenate([asked, siblings]), np.concatenate([sums, parents - sums])
        else:
            nodes, trees = asked, self._with_roots(trees, asked, sums)
        able = np.argsort(nodes)[self.rule.can_split(trees, np.sort(nodes))]
        trees, has_split = self._with_splits(trees, nodes[able], sums[able])
        first = len(trees.feature) - 2 * int(has_split.sum()) + 2 * np.arange(has_split.sum())
        goes_on = self.rule.can_split(trees, first) | self.rule.can_split(trees, first + 1)
        asked = first + (trees.count[first + 1] < trees.count[first])
        return trees, asked[goes_on], sums[able[has_split][goes_on]]

    def _with_splits(self, trees: Trees, nodes: IntArray, sums: IntArray) -> tuple[Trees, NDArray[np.bool_]]:
        """Return the trees with two new leaves for each node whose split gains something, and which nodes these are."""
        rule, count = self.rule, len(nodes)
        taken = np.ones((count, len(self.columns)), np.bool_)
        if rule.max_features < 1:
            taken = np.array([rule.columns_of(node, len(self.columns)) for node in nodes.tolist()], np.bool_)
        gain, test, left = np.zeros(count), np.zeros((count, 2), np.int64), np.zeros((count, CODES), np.bool_)
        of_left, parameters = np.zeros((count, 3), np.int64), np.array([rule.l2_regularization, rule.min_samples_leaf])
        best_splits(sums, self.columns, taken, self.units, parameters, trees.limits[nodes], left, gain, test, of_left)
        has_split = test[:, 0] >= 0
        nodes, sums, of_left = nodes[has_split], sums[has_split], of_left[has_split]
        gain, test, left = gain[has_split], test[has_split], left[has_split]
        totals = np.stack([of_left, self._totals(sums) - of_left], axis=1)
        limits = self._limits(trees.limits[nodes], self.columns[test[:, 0], 3], totals).reshape(-1, 2)
        first, bits = len(trees.feature) + 2 * np.arange(len(nodes)), np.packbits(left, axis=1, bitorder="little")
        split = {"feature": test[:, 0], "bin": test[:, 1], "left": bits, "gain": gain, "child": first}
        leaves = self._leaf(totals.reshape(-1, 3), limits) | {"depth": np.repeat(trees.depth[nodes] + 1, 2)}
        return trees.changed(nodes, split, len(limits), leaves), has_split

    def _with_roots(self, trees: Trees, roots: IntArray, sums: IntArray) -> Trees:
        """Return the trees with what the first sums tell of their roots."""
        return trees.changed(roots, self._leaf(self._totals(sums), trees.limits[roots]))

    def _leaf(self, totals: IntArray, limits: FloatArray) -> dict[str, FloatArray | IntArray]:
        """Return the arrays of nodes that have not been split, of their totals (nodes, 3)."""
        value = self.rule.learning_rate * self.rule.values(totals, limits, self.units)
        return {"value": value, "weight": totals[:, 1] * self.units[1], "count": totals[:, 2], "limits": limits}

    def _limits(self, before: FloatArray, signs: IntArray, totals: IntArray) -> FloatArray:
        """Return (nodes, 2, 2) the limits of children: their values lie on different sides of the middle of both."""
        limits = np.repeat(before[:, None], 2, axis=1)
        if len(bound := np.flatnonzero(signs)):
            middle = self.rule.values(totals[bound], limits[bound], self.units).sum(axis=1) / 2
            for side, sign in enumerate((signs[bound], -signs[bound])):
                limits[bound, side, (1 + sign) // 2] = middle
        return limits

    def _totals(self, sums: IntArray) -> IntArray:
        """Return the sums of all records of each node, (nodes, 3), from the cells of the first column."""
        return np.asarray(sums[:, : self.columns[0, 1] + 1].sum(axis=1))
