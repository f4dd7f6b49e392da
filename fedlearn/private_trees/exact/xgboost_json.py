"""Boosted trees as a JSON model of XGBoost, which computes the same scores in float32.

Source: XGBoost's ``doc/model.schema`` (1.7 and later). XGBoost goes left where a float32 is *below* the threshold, and
a record is here left where it is at most the edge: the threshold is the least float32 above the edge. Categories that a
node lists go right. The start is a first iteration of single leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.private_trees.exact.exact_losses import FloatArray, Loss
from fedlearn.private_trees.exact.flat_trees import Trees

NO_PARENT = 2**31 - 1
OBJECTIVES = {"squared_error": "reg:squarederror", "poisson": "count:poisson"}
PARAMETERS: dict[str, tuple[str, dict[str, str]]] = {
    "multi:softprob": ("softmax_multiclass_param", {}),
    "count:poisson": ("poisson_regression_param", {"max_delta_step": "0.7"}),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: the edges of a number's bins, or the number of categories."""

    name: str
    edges: FloatArray = field(default_factory=lambda: np.zeros(0))
    words: int = 0


def thresholds(trees: Trees, edges: Sequence[FloatArray]) -> FloatArray:
    """Return (nodes,) the greatest value that goes left; infinite where all do, 0 where no number is tested."""
    found = np.zeros(len(trees.feature))
    for node in np.flatnonzero((trees.child >= 0) & (trees.bin >= 0)).tolist():
        of_column = edges[trees.feature[node]]
        found[node] = of_column[trees.bin[node]] if trees.bin[node] < len(of_column) else np.inf
    return found


def as_xgboost(trees: Trees, columns: Sequence[Column], loss: Loss, start: FloatArray) -> dict[str, Any]:
    """Return the model as plain values."""
    outputs, ends = len(start), [*trees.root[1:].tolist(), len(trees.feature)]
    cut = thresholds(trees, [each.edges for each in columns])
    grown = [_leaf(value) for value in start.tolist()]
    grown += [_tree(trees, cut, columns, *span) for span in zip(trees.root.tolist(), ends, strict=False)]
    for number, tree in enumerate(grown):
        tree |= {"id": number, "tree_param": _parameters(len(tree["parents"]), len(columns))}
    base = {"log_loss": "0" if outputs > 1 else "5E-1", "squared_error": "0", "poisson": "1"}[loss.name]
    name = OBJECTIVES.get(loss.name) or ("multi:softprob" if outputs > 1 else "binary:logistic")
    kind, value = PARAMETERS.get(name, ("reg_loss_param", {"scale_pos_weight": "1"}))
    objective = {"name": name, kind: {"num_class": str(outputs)} if outputs > 1 else value}
    count, width = str(len(grown)), str(len(columns))
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": count}, "trees": grown,
        "iteration_indptr": [*range(0, len(grown) + 1, outputs)], "tree_info": [t % outputs for t in range(len(grown))],
    }  # fmt: skip
    parameters = {
        "base_score": base, "boost_from_average": "0", "num_class": str(outputs if outputs > 1 else 0),
        "num_feature": width, "num_target": "1",
    }  # fmt: skip
    learner = {
        "attributes": {}, "feature_names": [each.name for each in columns],
        "feature_types": ["c" if each.words else "float" for each in columns],
        "gradient_booster": {"name": "gbtree", "model": model},
        "learner_model_param": parameters, "objective": objective,
    }  # fmt: skip
    return {"version": [2, 1, 0], "learner": learner}


def _parameters(nodes: int, columns: int) -> dict[str, str]:
    return {"num_deleted": "0", "num_feature": str(columns), "num_nodes": str(nodes), "size_leaf_vector": "1"}


def _leaf(value: float) -> dict[str, Any]:
    """Return a tree of one leaf."""
    lists: dict[str, Any] = {f"categories{end}": [] for end in ("", "_nodes", "_segments", "_sizes")}
    whole = {name: [0] for name in ("default_left", "split_indices", "split_type")}
    floats = {"base_weights": [value], "split_conditions": [value], "loss_changes": [0.0], "sum_hessian": [0.0]}
    return {**lists, **whole, **floats, "left_children": [-1], "right_children": [-1], "parents": [NO_PARENT]}


def _tree(trees: Trees, cut: FloatArray, columns: Sequence[Column], first: int, end: int) -> dict[str, Any]:
    """Return a tree, of the nodes from `first` to `end`."""
    nodes = np.arange(first, end)
    inner, child = trees.child[nodes] >= 0, trees.child[nodes] - first
    parents = np.full(len(nodes), NO_PARENT)
    for side in (0, 1):
        parents[child[inner] + side] = np.flatnonzero(inner)
    feature = np.where(inner, trees.feature[nodes], 0)
    is_words = inner & (trees.bin[nodes] < 0)
    left = np.unpackbits(trees.left[nodes], axis=1, bitorder="little").astype(bool)
    last = np.array([each.words or len(each.edges) + 1 for each in columns])[feature]  # the code of missing values
    right = {node: np.flatnonzero(~left[node, : last[node]]).tolist() for node in np.flatnonzero(is_words).tolist()}
    sizes = [len(each) for each in right.values()]
    return {
        "base_weights": trees.value[nodes].tolist(),
        "categories": [word for each in right.values() for word in each],
        "categories_nodes": list(right),
        "categories_segments": np.cumsum([0, *sizes])[:-1].tolist(),
        "categories_sizes": sizes,
        "default_left": left[np.arange(len(nodes)), last].astype(int).tolist(),
        "left_children": np.where(inner, child, -1).tolist(),
        "right_children": np.where(inner, child + 1, -1).tolist(),
        "loss_changes": trees.gain[nodes].tolist(),
        "parents": parents.tolist(),
        "split_conditions": np.where(inner, _above(cut[nodes]), trees.value[nodes]).tolist(),
        "split_indices": feature.tolist(),
        "split_type": is_words.astype(int).tolist(),
        "sum_hessian": trees.weight[nodes].tolist(),
    }


def _above(values: FloatArray) -> NDArray[np.float64]:
    """Return the least float32 above each value; the largest one for what is infinite."""
    largest = np.finfo(np.float32).max
    near = np.minimum(values, largest).astype(np.float32)
    above = np.where(near > values, near, np.nextafter(near, largest))
    return np.asarray(above, np.float64)
