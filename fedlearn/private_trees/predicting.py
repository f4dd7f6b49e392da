"""Prediction: rows are routed to leaves, for all trees of an ensemble at once.

A row without the value that a node tests goes to *all* of the node's children, its weight divided evenly among them
(weight partition, WP): its prediction is the weighted mean over the leaves that it reaches. An undeclared category
counts as missing. Below a node whose tests all need values that the row lacks, the mean is the same for every row, so
it is computed once (`_summaries`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedlearn.cache.compiled import compiled
from fedlearn.private_trees.node_table import NodeTable

FloatArray = NDArray[np.float64]


def predict(table: NodeTable, X: FloatArray) -> FloatArray:
    """Return (rows, outputs): the weighted mean over the trees of the values of the leaves that each row reaches.

    Parameters
    ----------
    table
        A valid ensemble; a received table must have passed `NodeTable.validate`.
    X
        (rows, features) float64; NaN = missing; categorical features hold their codes.
    """
    out = np.zeros((X.shape[0], table.value.shape[1]))
    X = np.ascontiguousarray(X, np.float64)
    asked, mean = _summaries(table.feature, table.first_child, table.num_children, table.value)
    _predict(
        table.root,
        table.weight,
        table.feature,
        table.threshold,
        table.first_child,
        table.num_children,
        table.value,
        asked,
        mean,
        X,
        out,
    )
    return out


def leaf_of_rows(table: NodeTable, X: FloatArray) -> NDArray[np.int32]:
    """Return (rows, trees) the leaf that each row reaches; -1 if a value is missing on its path."""
    out = np.full((X.shape[0], table.num_trees), -1, np.int32)
    X = np.ascontiguousarray(X, np.float64)
    _leaves(table.root, table.feature, table.threshold, table.first_child, table.num_children, X, out)
    return out


@compiled(inline="always")
def _child(x, threshold, first_child, num_children):  # type: ignore[no-untyped-def]
    """Return the child that takes x, or -1 if x is missing or an undeclared category."""
    if np.isnan(x):
        return -1
    if np.isnan(threshold):
        code = int(x)
        return first_child + code if 0 <= code < num_children and code == x else -1
    return first_child + (1 if x > threshold else 0)


@compiled()
def _predict(root, weight, feature, threshold, first_child, num_children, value, asked, mean, X, out):  # type: ignore[no-untyped-def]
    """Add the predictions to `out`, tree by tree over blocks of rows, so that a tree's nodes stay in the cache."""
    block = 4096
    waiting = np.empty(feature.shape[0], np.int64)  # each node is on the stack at most once
    shares = np.empty(feature.shape[0])
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
                    _spread(
                        node,
                        weight[tree],
                        waiting,
                        shares,
                        feature,
                        threshold,
                        first_child,
                        num_children,
                        asked,
                        mean,
                        X[row],
                        out[row],
                    )


@compiled()
def _spread(node, weight, waiting, shares, feature, threshold, first_child, num_children, asked, mean, x, out):  # type: ignore[no-untyped-def]
    """Add the leaves below a node to `out`; the row's weight is divided at each missing value."""
    known = np.uint64(0)
    for column in range(x.shape[0]):
        if not np.isnan(x[column]):
            known |= _bit(column)
    top, here, share = 0, node, weight
    while True:
        if not asked[here] & known:
            for output in range(out.shape[0]):
                out[output] += share * mean[here, output]
            if top == 0:
                return
            top -= 1
            here, share = waiting[top], shares[top]
            continue
        child = _child(x[feature[here]], threshold[here], first_child[here], num_children[here])
        if child < 0:
            share /= num_children[here]
            child = first_child[here] + num_children[here] - 1
            for other in range(first_child[here], child):
                waiting[top], shares[top] = other, share
                top += 1
        here = child


@compiled(inline="always")
def _bit(feature):  # type: ignore[no-untyped-def]
    """Return the bit of a feature; features 64 apart share one."""
    return np.uint64(1) << np.uint64(feature % 64)


@compiled()
def _summaries(feature, first_child, num_children, value):  # type: ignore[no-untyped-def]
    """Return (nodes,) bits of the features tested at or below each node, and (nodes, outputs) mean values below it.

    The mean of a node weighs each of its branches alike.
    """
    asked, mean = np.zeros(feature.shape[0], np.uint64), value.copy()
    for node in range(feature.shape[0] - 1, -1, -1):  # children come after their parents
        if feature[node] < 0:
            continue
        asked[node] = _bit(feature[node])
        mean[node] = 0.0
        for child in range(first_child[node], first_child[node] + num_children[node]):
            asked[node] |= asked[child]
            mean[node] += mean[child] / num_children[node]
    return asked, mean


@compiled()
def _leaves(root, feature, threshold, first_child, num_children, X, out):  # type: ignore[no-untyped-def]
    for tree in range(root.shape[0]):
        for row in range(X.shape[0]):
            node = root[tree]
            while node >= 0 and feature[node] >= 0:
                node = _child(X[row, feature[node]], threshold[node], first_child[node], num_children[node])
            out[row, tree] = node
