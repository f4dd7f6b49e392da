"""Trees of boosting as flat arrays, as a state holds them: one row for each node, children behind their parents.

The two children of a node are adjacent, the left one first. A record goes left at a node if the bit of its code is set
in `left`. So one test serves numbers, categories and missing values.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import Refused
from fedlearn.core.state import State

CODES = 256  # of a column: bins or categories, and missing values
LARGEST = np.finfo(np.float64).max
SHAPES: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "root": ("int32", ()),
    "feature": ("int32", ()),
    "bin": ("int32", ()),
    "child": ("int32", ()),
    "depth": ("int32", ()),
    "left": ("uint8", (CODES // 8,)),
    "value": ("float64", ()),
    "gain": ("float64", ()),
    "weight": ("float64", ()),
    "count": ("int64", ()),
    "limits": ("float64", (2,)),
}
EMPTY: Mapping[str, Any] = {"feature": -1, "bin": -1, "child": -1, "limits": [-LARGEST, LARGEST]}  # of a leaf; else 0


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Trees, in the order in which they were grown; tree t adds to output t modulo the number of outputs.

    Parameters
    ----------
    root
        (trees,) the first node of each tree; `root` is sorted.
    feature, bin
        Column that a node tests, -1 at a leaf; last bin of the left side, -1 of categories.
    child
        The left child, before the right one; -1 at a leaf.
    depth
        Edges from the root.
    left
        (nodes, 32) the codes that go left, as bits.
    value
        What the node adds to the score of its records if it is a leaf.
    gain
        How much the node's split lowers the loss.
    weight, count
        Sum of curvatures, and number of records, when the node was made.
    limits
        (nodes, 2) lowest and highest value, before the learning rate, that monotone constraints leave.
    """

    root: NDArray[np.int32]
    feature: NDArray[np.int32]
    bin: NDArray[np.int32]
    child: NDArray[np.int32]
    depth: NDArray[np.int32]
    left: NDArray[np.uint8]
    value: NDArray[np.float64]
    gain: NDArray[np.float64]
    weight: NDArray[np.float64]
    count: NDArray[np.int64]
    limits: NDArray[np.float64]

    @classmethod
    def none(cls) -> Trees:
        """Return no tree."""
        return cls(**{name: np.zeros((0, *shape), dtype) for name, (dtype, shape) in SHAPES.items()})

    @classmethod
    def of_state(cls, state: State) -> Trees:
        """Return the trees of a state."""
        return cls(**{name: state[name] for name in SHAPES})

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by their names."""
        return {name: getattr(self, name) for name in SHAPES}

    def first(self, trees: int) -> Trees:
        """Return as many trees."""
        return self._cut(trees, int(self.root[trees]) if trees < len(self.root) else len(self.feature))

    def with_roots(self, count: int) -> Trees:
        """Return the trees and as many new ones, of a root each."""
        roots = len(self.feature) + np.arange(count, dtype=np.int32)
        return replace(self.changed((), {}, count), root=np.concatenate([self.root, roots]))

    def changed(self, nodes: Any, given: Mapping[str, Any], count: int = 0, leaves: Mapping[str, Any] = EMPTY) -> Trees:
        """Return the trees with other numbers at some nodes, and a number of new leaves behind all nodes."""
        new = self.arrays
        for name in [*new][1:] if count else given:
            new[name] = np.concatenate([new[name], np.empty((count, *new[name].shape[1:]), new[name].dtype)])
            new[name][len(self.feature) :] = leaves.get(name, EMPTY.get(name, 0))
            if name in given:
                new[name][nodes] = given[name]
        return Trees(**new)

    def pruned(self, first: int, most_leaves: int) -> Trees:
        """Return the trees, from tree `first` on with at most as many leaves: those of the largest gains.

        The splits that remain are those of growing leaf by leaf, the one of the largest gain first.
        """
        if len(self.root) == first + 1 and len(self.feature) - self.root[first] < 2 * most_leaves:
            return self
        made = self.first(first)
        for root in self.root[first:].tolist():
            kept, heap = {root}, [(-self.gain[root], root)]
            while heap and len(kept) < 2 * most_leaves - 1:
                node = heapq.heappop(heap)[1]
                if (child := int(self.child[node])) >= 0:
                    kept |= {child, child + 1}
                    heap += [(-self.gain[each], each) for each in (child, child + 1)]
                    heapq.heapify(heap)
            made = made._with(self, np.array(sorted(kept)))
        return made

    def check(self, columns: int) -> None:
        """Raise `Refused` unless the arrays are trees over as many columns."""
        nodes, inner = len(self.feature), np.flatnonzero(self.child >= 0)
        shapes = {len(rows) for name, rows in self.arrays.items() if name != "root"}
        if shapes != {nodes} or (np.diff(self.root, prepend=-1) <= 0).any() or (self.root >= nodes).any():
            raise Refused("wrong-shape", "the arrays are no table of trees")
        tested = self.feature[inner]
        if (tested < 0).any() or (tested >= columns).any() or (self.bin >= CODES).any():
            raise Refused("bad-feature", f"a node tests a column that is none of {columns}")
        if (self.child[inner] <= inner).any() or (self.child[inner] + 1 >= nodes).any():
            raise Refused("bad-child", "a child lies before its parent or behind the table")

    def _cut(self, trees: int, nodes: int) -> Trees:
        return replace(self, **{n: rows[: trees if n == "root" else nodes] for n, rows in self.arrays.items()})

    def _with(self, other: Trees, nodes: NDArray[np.int64]) -> Trees:
        """Return the trees and another one, of these nodes of a table; the first is its root."""
        start = len(self.feature)
        kept = {name: rows[nodes] for name, rows in other.arrays.items() if name != "root"}
        is_split = np.isin(kept["child"], nodes) & (kept["child"] >= 0)
        kept["child"] = np.where(is_split, start + np.searchsorted(nodes, kept["child"]), -1).astype(np.int32)
        for name in ("feature", "bin"):
            kept[name] = np.where(is_split, kept[name], -1).astype(np.int32)
        kept["gain"] = np.where(is_split, kept["gain"], 0.0)
        joined = {name: np.concatenate([getattr(self, name), rows]) for name, rows in kept.items()}
        return replace(self, **joined, root=np.append(self.root, np.int32(start)))
