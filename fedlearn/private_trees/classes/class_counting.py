"""Counts of classes in trees over categorical features, with weight partition (WP) for missing values, in numba.

A record starts at a root with a weight. Where a node splits on a feature that the record has, the whole weight goes
to the child of its category; where the value is missing, all k children get a share of 1/k (weight partition). All
nodes of a level, of all trees, are counted in one pass over the records.

What one record can change: weights are integers in units of 2^-24; a share is ``weight // k`` and the remainder goes,
unit by unit, to the first children. So nothing is lost: for every tree, the weights that a record has at the nodes of
any *antichain* (no node above another: the open nodes of a level, the leaves) sum to at most its first weight, in exact
arithmetic, and to exactly that if the antichain cuts all paths. A first weight is at most 1. Hence, adding or removing
one record changes the class counts of an antichain by at most 1 in the L1 norm, whatever is missing. Counts below 2^29
are exact in float64: no rounding stands between this proof and the code.

How a tree composes: let node v publish a release that costs eps_v for a record of weight 1 and eps_v w for a record of
weight w (as do Laplace counts, and choices by the utilities of `utilities`). For any fixed published outcome, the loss
of a record is at most the sum of eps_v w_v over the nodes. The part of a record that reaches v pays eps_v and then what
its children cost, with shares that sum to 1: by induction from the leaves, the loss is at most the *dearest path*, max
over paths of the sum of eps_v along it. This is sequential composition along a path and parallel composition across
branches, also for a record with missing values, which is in many branches at once. Which nodes exist may depend on
published outcomes, as the bound holds for each outcome by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedlearn.cache.compiled import compiled
from fedlearn.private_trees.binning import MISSING
from fedlearn.private_trees.node_table import LEAF

ONE = 2**24  # the weight of a whole record
STAY = -1  # in place of a feature: the node becomes a leaf
TOTALS, SPREAD, COMPLETE = (
    0,
    1,
    2,
)  # count a node as a whole; by category, with missing values spread; by category, without them

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class CodedRecords:
    """Training data in codes, labels and integer weights."""

    codes: NDArray[np.uint8]  # (n, features) category of each value, or MISSING
    labels: IntArray  # (n,) position of the class
    weights: IntArray  # (n,) in units of 1 / ONE, 0 .. ONE
    tree: IntArray  # (n,) the one tree that this record belongs to, or -1: all trees
    sizes: IntArray  # (features,) number of categories, 1 .. 255
    num_classes: int

    @property
    def offsets(self) -> IntArray:
        """(features,) first column of each feature in arrays that hold all categories side by side."""
        return np.cumsum(self.sizes) - self.sizes


@dataclass(slots=True)
class Growth:
    """Trees that grow level by level; node numbers ascend with the level, so children come after their parents."""

    num_trees: int
    sizes: IntArray  # (features,) number of categories
    feature: list[IntArray] = field(default_factory=list)  # one array for each closed level
    first_child: list[IntArray] = field(default_factory=list)
    open_used: NDArray[np.bool_] = field(init=False)  # (open nodes, features) features that stand on the node's path
    open_start: int = 0  # the open nodes are open_start .. open_start + len(open_used) - 1

    def __post_init__(self) -> None:
        self.open_used = np.zeros((self.num_trees, len(self.sizes)), np.bool_)

    @property
    def level(self) -> int:
        """The level of the open nodes; the root's is 0."""
        return len(self.feature)

    @property
    def num_open(self) -> int:
        """Number of open nodes: whether they split is not decided yet."""
        return len(self.open_used)

    def split(self, choice: IntArray) -> tuple[IntArray, IntArray]:
        """Close the level: open node i splits on feature ``choice[i]``, or becomes a leaf if ``choice[i]`` is STAY.

        Returns (parent, category) of each new open node; parents are positions among the nodes that were open.
        """
        inner = np.flatnonzero(choice != STAY)
        children = np.where(choice == STAY, 0, self.sizes[choice])
        start = self.open_start + self.num_open
        self.feature.append(choice.astype(np.int64))
        self.first_child.append(np.where(choice == STAY, LEAF, start + np.cumsum(children) - children))
        used = self.open_used.copy()
        used[inner, choice[inner]] = True
        parent = np.repeat(np.arange(len(choice)), children)
        category = np.arange(children.sum()) - np.repeat(np.cumsum(children) - children, children)
        self.open_used, self.open_start = used[parent], start
        return parent, category

    def nodes(self) -> tuple[IntArray, IntArray]:
        """Return (feature, first_child) of all nodes; open nodes count as leaves."""
        leaves = np.full(self.num_open, LEAF, np.int64)
        return np.concatenate([*self.feature, leaves]), np.concatenate([*self.first_child, leaves])

    def leaves(self) -> IntArray:
        """Return (leaves,) the node numbers of all leaves, open nodes included."""
        feature, _ = self.nodes()
        return np.flatnonzero(feature == LEAF)

    def level_starts(self) -> IntArray:
        """Return (levels + 1,) the first node of each level, and the number of nodes."""
        return np.cumsum([0, *map(len, self.feature), self.num_open])


def count_open(growth: Growth, records: CodedRecords, *, spread: bool = True) -> NDArray[np.float64]:
    """Return (open nodes, all categories side by side, classes) weights, in records.

    A record with a missing value is divided over the feature's categories, as it would be over the children. With
    ``spread=False`` it is left out, so that the *complete part* of each feature is counted.
    """
    feature, _ = growth.nodes()
    slot = np.full(len(feature), -1, np.int64)
    slot[growth.open_start :] = np.arange(growth.num_open)
    return _count(growth, records, slot, growth.num_open, SPREAD if spread else COMPLETE)


def count_leaves(growth: Growth, records: CodedRecords) -> tuple[IntArray, NDArray[np.float64]]:
    """Return (leaves,) the node numbers of all leaves, and (leaves, classes) their weights, in records."""
    leaves = growth.leaves()
    slot = np.full(growth.level_starts()[-1], -1, np.int64)
    slot[leaves] = np.arange(len(leaves))
    return leaves, _count(growth, records, slot, len(leaves), TOTALS)[:, 0]


def _count(growth: Growth, records: CodedRecords, slot: IntArray, slots: int, columns_by: int) -> NDArray[np.float64]:
    feature, first_child = growth.nodes()
    waiting = growth.level * int(records.sizes.max(initial=1)) + 1  # largest number of nodes on the stack
    columns = 1 if columns_by == TOTALS else int(records.sizes.sum())
    counts = np.zeros((slots, columns, records.num_classes), np.int64)
    _add(
        records.codes, records.labels, records.weights, records.tree, records.sizes, records.offsets,
        growth.num_trees, feature, first_child, slot, waiting, columns_by, counts,
    )  # fmt: skip
    return counts / ONE


@compiled()
def _add(  # type: ignore[no-untyped-def]
    codes, labels, weights, tree, sizes, offsets, num_trees, feature, first_child, slot, waiting, columns_by, counts
):
    """Walk every record down its trees (roots: nodes 0 .. num_trees - 1); add its weight at the marked nodes."""
    node_stack = np.empty(waiting, np.int64)
    weight_stack = np.empty(waiting, np.int64)
    for row in range(codes.shape[0]):
        label = labels[row]
        first, last = (0, num_trees) if tree[row] < 0 else (tree[row], tree[row] + 1)
        for root in range(first, last):
            node_stack[0], weight_stack[0] = root, weights[row]
            top = 1
            while top > 0:
                top -= 1
                node, weight = node_stack[top], weight_stack[top]
                while feature[node] >= 0:
                    code = codes[row, feature[node]]
                    if code == MISSING:
                        break
                    node = first_child[node] + code
                if feature[node] >= 0:
                    share, rest = divmod(weight, sizes[feature[node]])
                    for child in range(sizes[feature[node]]):
                        if share + (child < rest) > 0:
                            node_stack[top] = first_child[node] + child
                            weight_stack[top] = share + (child < rest)
                            top += 1
                elif slot[node] >= 0 and columns_by == TOTALS:
                    counts[slot[node], 0, label] += weight
                elif slot[node] >= 0:
                    here = counts[slot[node]]
                    for column in range(codes.shape[1]):
                        code = codes[row, column]
                        if code != MISSING:
                            here[offsets[column] + code, label] += weight
                        elif columns_by == SPREAD:
                            share, rest = divmod(weight, sizes[column])
                            for category in range(sizes[column]):
                                here[offsets[column] + category, label] += share + (category < rest)
