"""The regression trees, row by row in plain Python: slow and obvious. Whole numbers, so equality is
exact."""

from __future__ import annotations

import numpy as np

MISSING = 255


def codes(X: np.ndarray, thresholds: list[list[float]]) -> np.ndarray:
    """The number of thresholds below each value."""
    out = np.zeros(X.shape, np.uint8)
    for row, feature in np.ndindex(X.shape):
        x = X[row, feature]
        out[row, feature] = MISSING if np.isnan(x) else sum(t < x for t in thresholds[feature])
    return out


def histogram(codes: np.ndarray, parts: np.ndarray, slot_of_row: np.ndarray, slots: int, bins: int) -> np.ndarray:
    out = np.zeros((slots, codes.shape[1], bins + 1, 2), np.int64)
    for row, slot in enumerate(slot_of_row):
        for feature, code in enumerate(codes[row]):
            out[slot, feature, bins if code == MISSING else code] += parts[row]
    return out


def sides(codes: np.ndarray, feature: int, cut: int) -> tuple[np.ndarray, np.ndarray]:
    """The share of each row that goes left, and right."""
    column = codes[:, feature].astype(int)
    left = np.where(column == MISSING, 0.5, column <= cut)
    return left, 1 - left


def squared(y: np.ndarray, w: np.ndarray, left: np.ndarray, right: np.ndarray) -> float:
    """Minus the sum of squared errors around the sides' means."""
    return -sum(weighted_error(y, w * side, lambda d: d**2, np.average) for side in (left, right))


def absolute(y: np.ndarray, w: np.ndarray, left: np.ndarray, right: np.ndarray) -> float:
    """Minus the sum of absolute errors around the sides' medians."""
    return -sum(weighted_error(y, w * side, np.abs, weighted_median) for side in (left, right))


def vote(y: np.ndarray, w: np.ndarray, left: np.ndarray, right: np.ndarray, center: float) -> float:
    ones = y > center
    return sum(max((w * side)[ones].sum(), (w * side)[~ones].sum()) for side in (left, right))


def weighted_error(y, w, error, middle) -> float:
    return 0.0 if w.sum() == 0 else float((w * error(y - middle(y, weights=w))).sum())


def weighted_median(y: np.ndarray, *, weights: np.ndarray) -> float:
    """A point that minimizes the sum of weighted absolute errors: one of the values."""
    return min(y, key=lambda m: (weights * np.abs(y - m)).sum())


def predicted(table, x: np.ndarray) -> np.ndarray:
    """The prediction for one row, by recursion over each tree."""

    def below(node: int) -> np.ndarray:
        if table.feature[node] < 0:
            return table.value[node]
        value, first, count = x[table.feature[node]], table.first_child[node], table.num_children[node]
        if np.isnan(table.threshold[node]):
            if value in range(count):
                return below(first + int(value))
        elif not np.isnan(value):
            return below(first + int(value > table.threshold[node]))
        return sum(below(first + child) for child in range(count)) / count

    return sum(weight * below(root) for root, weight in zip(table.root, table.weight, strict=True))
