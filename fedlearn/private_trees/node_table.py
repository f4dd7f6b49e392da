"""The node table: a whole ensemble of trees in seven flat arrays, as it is stored, sent and checked.

The children of a node lie side by side, always behind their parent, so a table holds no cycle by construction and a row
is routed with one addition:

* numeric node: ``child = first_child + (x > threshold)``;
* categorical node (threshold is NaN): ``child = first_child + code``, one child for each declared category.

A received table is untrusted: `validate` raises unless it is an ensemble over the declared domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import Refused

LEAF = -1
"""Value of ``feature`` and ``first_child`` at a leaf."""

DTYPES = {
    "root": "int32",
    "weight": "float64",
    "feature": "int32",
    "threshold": "float64",
    "first_child": "int32",
    "num_children": "int32",
    "value": "float64",
}


class MalformedTree(Refused):
    """A node table is not an ensemble of trees over the declared domain.

    Parameters
    ----------
    reason : str
        One fixed word for logs; `NodeTable.validate` lists them.
    detail : str
        Description of the fault, for people.
    """


@dataclass(frozen=True, slots=True, eq=False)
class NodeTable:
    """An ensemble of trees; its prediction is the weighted mean over the trees of the value of the leaf reached.

    Parameters
    ----------
    root : ndarray of int32, shape (trees,)
        The node at which each tree starts.
    weight : ndarray of float64, shape (trees,)
        Share of each tree in the prediction, above 0; sums to 1.
    feature : ndarray of int32, shape (nodes,)
        Column that is tested; -1 = leaf.
    threshold : ndarray of float64, shape (nodes,)
        Values above go right; NaN at leaves and at categorical nodes.
    first_child : ndarray of int32, shape (nodes,)
        First of the node's children, which are adjacent; -1 = leaf.
    num_children : ndarray of int32, shape (nodes,)
        Number of the node's children; 0 = leaf.
    value : ndarray of float64, shape (nodes, outputs)
        Prediction of a node; only leaves' are used.

    Examples
    --------
    >>> stump = NodeTable.of_nodes(feature=[0, -1, -1], threshold=[0.5, np.nan, np.nan], first_child=[1, -1, -1],
    ...                            num_children=[2, 0, 0], value=[[0.0], [1.0], [2.0]])
    >>> stump.depth, stump.num_trees
    (1, 1)
    """

    root: NDArray[np.int32]
    weight: NDArray[np.float64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    first_child: NDArray[np.int32]
    num_children: NDArray[np.int32]
    value: NDArray[np.float64]

    @classmethod
    def of_nodes(
        cls,
        *,
        feature: Sequence[int] | NDArray[np.generic],
        threshold: Sequence[float] | NDArray[np.generic],
        first_child: Sequence[int] | NDArray[np.generic],
        num_children: Sequence[int] | NDArray[np.generic],
        value: Sequence[Sequence[float]] | NDArray[np.generic],
        root: Sequence[int] | NDArray[np.generic] = (0,),
        weight: Sequence[float] | NDArray[np.generic] | None = None,
    ) -> NodeTable:
        """Return a table of these columns, each in its dtype; without `weight` all trees weigh the same."""
        given = {"feature": feature, "threshold": threshold, "first_child": first_child, "num_children": num_children}
        equal = np.full(len(root), 1 / max(len(root), 1))
        arrays = {**given, "value": value, "root": root, "weight": equal if weight is None else weight}
        return cls(**{name: np.ascontiguousarray(array, DTYPES[name]) for name, array in arrays.items()})

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all trees together."""
        return len(self.feature)

    @property
    def num_trees(self) -> int:
        """Number of trees."""
        return len(self.root)

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        """(nodes,) whether the node is a leaf."""
        return np.asarray(self.feature == LEAF)

    @property
    def depth(self) -> int:
        """Longest path of the ensemble, in edges; a lone leaf has depth 0."""
        return max(int(level_of_nodes(self).max(initial=0)), 0)

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the columns by name, as they are stored and sent."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> NodeTable:
        """Return the table of these columns; a table that was received must then pass `validate`.

        Raises
        ------
        MalformedTree
            If a column is missing, is one too many, or has another dtype or number of dimensions.
        """
        if arrays.keys() != DTYPES.keys():
            raise MalformedTree("wrong-names", f"columns {sorted(arrays)}, expected {sorted(DTYPES)}")
        for name, dtype in DTYPES.items():
            dimensions = 2 if name == "value" else 1
            if arrays[name].dtype != np.dtype(dtype) or arrays[name].ndim != dimensions:
                detail = f"column {name!r} is {arrays[name].dtype} with {arrays[name].ndim} dimensions"
                raise MalformedTree("wrong-dtype", f"{detail}, expected {dtype} with {dimensions}")
        return cls(**{name: np.ascontiguousarray(arrays[name]) for name in DTYPES})

    def validate(
        self,
        *,
        num_features: int,
        outputs: int = 1,
        value_bounds: tuple[float, float] = (-np.inf, np.inf),
        max_depth: int = 64,
        max_nodes: int = 2**24,
        max_trees: int = 2**24,
        categories: Sequence[int] | None = None,
    ) -> None:
        """Raise MalformedTree unless the table is an ensemble over the given features.

        Parameters
        ----------
        num_features
            Features are 0 .. num_features - 1.
        outputs
            Columns of ``value``: 1 in regression, the classes in classification.
        value_bounds
            Every value must lie inside, ends included.
        max_depth, max_nodes, max_trees
            The largest ensemble that is accepted; `max_depth` in edges, `max_nodes` over all trees.
        categories
            (num_features,) number of categories of each feature, 0 = numeric; None: all numeric.

        Raises
        ------
        MalformedTree
            With the reason ``wrong-shape``, ``too-large``, ``bad-weight``, ``bad-feature``, ``bad-threshold``,
            ``bad-child``, ``bad-value`` or ``too-deep``.
        """
        codes = np.zeros(num_features, np.int64) if categories is None else np.asarray(categories, np.int64)
        _check_shapes(self, outputs, max_nodes, max_trees)
        _check_weights(self)
        _check_splits(self, codes)
        _check_children(self, codes)
        low, high = value_bounds
        if not np.isfinite(self.value).all() or (self.value < low).any() or (self.value > high).any():
            raise MalformedTree("bad-value", f"a value is not finite or lies outside [{low}, {high}]")
        _check_depth(self, max_depth)


def level_of_nodes(table: NodeTable) -> NDArray[np.int32]:
    """Return (nodes,) the distance of each node from its root, in edges; -1 if no root leads to it."""
    level = np.full(table.num_nodes, -1, np.int32)
    frontier = table.root.astype(np.int64)
    distance = 0
    while len(frontier):
        level[frontier] = distance
        frontier = children_of(table, frontier)
        distance += 1
    return level


def children_of(table: NodeTable, nodes: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the children of the given nodes, in the nodes' order; leaves have no children."""
    count = table.num_children[nodes].astype(np.int64)
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.asarray(np.repeat(table.first_child[nodes].astype(np.int64), count) + offset)


def union(tables: Sequence[NodeTable], weights: Sequence[float] | NDArray[np.float64] | None = None) -> NodeTable:
    """Return one ensemble of all the trees.

    Parameters
    ----------
    tables : sequence of NodeTable
        At least one; all with the same number of outputs.
    weights : sequence of float or None, default=None
        Share of each table in the prediction, normalized here. None: each tree of the union weighs the same.

    Examples
    --------
    >>> leaf = NodeTable.of_nodes(feature=[-1], threshold=[np.nan], first_child=[-1], num_children=[0], value=[[2.0]])
    >>> union([leaf, leaf]).num_trees
    2
    """
    if not tables:
        raise ValueError("tables is empty: a union needs at least one node table")
    if weights is None:
        weights = [table.num_trees for table in tables]
    shares = np.asarray(weights, np.float64) / np.sum(weights)
    offsets = np.cumsum([0, *(table.num_nodes for table in tables[:-1])])
    moved = [np.where(t.is_leaf, LEAF, t.first_child + offset) for t, offset in zip(tables, offsets, strict=True)]
    return NodeTable.of_nodes(
        root=np.concatenate([t.root + offset for t, offset in zip(tables, offsets, strict=True)]),
        weight=np.concatenate([t.weight * share for t, share in zip(tables, shares, strict=True)]),
        feature=np.concatenate([t.feature for t in tables]),
        threshold=np.concatenate([t.threshold for t in tables]),
        first_child=np.concatenate(moved),
        num_children=np.concatenate([t.num_children for t in tables]),
        value=np.concatenate([t.value for t in tables]),
    )


def _check_shapes(table: NodeTable, outputs: int, max_nodes: int, max_trees: int) -> None:
    nodes = table.num_nodes
    for name in ("threshold", "first_child", "num_children"):
        shape = getattr(table, name).shape
        if shape != (nodes,):
            raise MalformedTree("wrong-shape", f"column {name!r} has shape {shape}, not ({nodes},)")
    if table.value.shape != (nodes, outputs):
        raise MalformedTree("wrong-shape", f"column 'value' has shape {table.value.shape}, not ({nodes}, {outputs})")
    if table.weight.shape != table.root.shape or not table.num_trees:
        raise MalformedTree("wrong-shape", f"{table.num_trees} roots and {len(table.weight)} weights")
    for count, what, most in ((nodes, "nodes", max_nodes), (table.num_trees, "trees", max_trees)):
        if count > most:
            raise MalformedTree("too-large", f"{count} {what}, at most {most} are accepted")


def _check_weights(table: NodeTable) -> None:
    if not (table.weight > 0).all() or not abs(table.weight.sum() - 1) < 1e-9:
        raise MalformedTree("bad-weight", "weights must be above 0 and sum to 1")


def _check_splits(table: NodeTable, categories: NDArray[np.int64]) -> None:
    leaf = table.is_leaf
    if (table.feature < LEAF).any() or (table.feature >= len(categories)).any():
        raise MalformedTree("bad-feature", f"a feature is outside 0 .. {len(categories) - 1} and is not {LEAF}")
    if not np.isnan(table.threshold[leaf]).all():
        raise MalformedTree("bad-threshold", "a leaf has a threshold")
    inner = np.flatnonzero(~leaf)
    numeric = categories[table.feature[inner]] == 0
    if not np.isfinite(table.threshold[inner[numeric]]).all():
        raise MalformedTree("bad-threshold", "the threshold of a numeric node is not finite")
    if not np.isnan(table.threshold[inner[~numeric]]).all():
        raise MalformedTree("bad-threshold", "a categorical node has a threshold")


def _check_children(table: NodeTable, categories: NDArray[np.int64]) -> None:
    leaf = table.is_leaf
    if (table.first_child[leaf] != LEAF).any() or (table.num_children[leaf] != 0).any():
        raise MalformedTree("bad-child", "a leaf has children")
    inner = np.flatnonzero(~leaf)
    wanted = categories[table.feature[inner]]
    if (table.num_children[inner] != np.where(wanted == 0, 2, wanted)).any():
        raise MalformedTree("bad-child", "a node must have 2 children if numeric, else one for each category")
    first = table.first_child[inner].astype(np.int64)
    if (first <= inner).any() or (first + table.num_children[inner] > table.num_nodes).any():
        raise MalformedTree("bad-child", "a child lies before its parent or behind the table")
    if (table.root < 0).any() or (table.root >= table.num_nodes).any():
        raise MalformedTree("bad-child", "a root lies outside the table")
    reached = np.concatenate([table.root.astype(np.int64), children_of(table, inner)])
    if len(reached) != table.num_nodes or (np.bincount(reached, minlength=table.num_nodes) != 1).any():
        raise MalformedTree("bad-child", "a node has two parents, or no parent")


def _check_depth(table: NodeTable, max_depth: int) -> None:
    """Raise MalformedTree if a path is longer than `max_depth`; the walk ends there."""
    level = table.root.astype(np.int64)
    for _ in range(max_depth + 1):
        level = children_of(table, level)
        if not len(level):
            return
    raise MalformedTree("too-deep", f"a path has more than {max_depth} edges")
