"""Routing rows to leaves, for all trees of an ensemble at once.

A row that lacks the value a node asks for goes to *all* of the node's children, with its weight divided evenly among
them (weight partition, WP): its prediction is the weighted mean over the leaves it reaches. A category that was not
declared counts as missing.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from fedlearn.trees.nodes import NodeTable

FloatArray = NDArray[np.float64]


def predict(table: NodeTable, X: FloatArray) -> FloatArray:
    """Return (rows, outputs): the weighted mean over the trees of the values of the leaves that each row reaches.

    Parameters
    ----------
    table
        A valid ensemble; tables from elsewhere are checked with `NodeTable.validate` first.
    X
        (rows, features) float64; NaN = missing; categorical features hold their codes.
    """
    out = np.zeros((X.shape[0], table.value.shape[1]))
    X = np.ascontiguousarray(X, np.float64)
    _predict(
        table.root,
        table.weight,
        table.feature,
        table.threshold,
        table.first_child,
        table.num_children,
        table.value,
        X,
        out,
    )
    return out


def leaf_of_rows(table: NodeTable, X: FloatArray) -> NDArray[np.int32]:
    """Return (rows, trees) the leaf that each row reaches; -1 where a value was missing on the way."""
    out = np.full((X.shape[0], table.num_trees), -1, np.int32)
    X = np.ascontiguousarray(X, np.float64)
    _leaves(table.root, table.feature, table.threshold, table.first_child, table.num_children, X, out)
    return out


@numba.njit(cache=True, inline="always")
def _child(x, threshold, first_child, num_children):  # type: ignore[no-untyped-def]
    """Return the child that takes x, or -1 if x is missing there."""
    if np.isnan(x):
        return -1
    if np.isnan(threshold):
        code = int(x)
        return first_child + code if 0 <= code < num_children and code == x else -1
    return first_child + (1 if x > threshold else 0)


@numba.njit(cache=True)
def _predict(root, weight, feature, threshold, first_child, num_children, value, X, out):  # type: ignore[no-untyped-def]
    """Tree by tree over blocks of rows, so that a tree's nodes stay in the cache."""
    block = 4096
    for start in range(0, X.shape[0], block):
        stop = min(start + block, X.shape[0])
        for tree in range(root.shape[0]):
            for row in range(start, stop):
                node = root[tree]
                while feature[node] >= 0:
                    child = _child(X[row, feature[node]], threshold[node], first_child[node], num_children[node])
                    if child < 0:
                        break
                    node = child
                if feature[node] < 0:
                    for output in range(out.shape[1]):
                        out[row, output] += weight[tree] * value[node, output]
                else:
                    _spread(node, weight[tree], feature, threshold, first_child, num_children, value, X, row, out)


@numba.njit(cache=True)
def _spread(node, weight, feature, threshold, first_child, num_children, value, X, row, out):  # type: ignore[no-untyped-def]
    """Add the leaves below `node`, the row's weight divided wherever its value is missing."""
    waiting = [(node, weight)]
    while len(waiting) > 0:
        here, share = waiting.pop()
        if feature[here] < 0:
            for output in range(out.shape[1]):
                out[row, output] += share * value[here, output]
            continue
        child = _child(X[row, feature[here]], threshold[here], first_child[here], num_children[here])
        if child >= 0:
            waiting.append((child, share))
        else:
            for offset in range(num_children[here]):
                waiting.append((first_child[here] + offset, share / num_children[here]))


@numba.njit(cache=True)
def _leaves(root, feature, threshold, first_child, num_children, X, out):  # type: ignore[no-untyped-def]
    for tree in range(root.shape[0]):
        for row in range(X.shape[0]):
            node = root[tree]
            while node >= 0 and feature[node] >= 0:
                node = _child(X[row, feature[node]], threshold[node], first_child[node], num_children[node])
            out[row, tree] = node
