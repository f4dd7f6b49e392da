"""The hot loops of the printed regression trees, compiled by numba: errors of splits, routing of rows, leaves.

Legend: n rows of a node, f features, c candidate thresholds of each feature. ``order`` lists row numbers so that each
node owns one stretch ``order[start:stop]``, and within it rows ascend by target. ``bins[row, feature]`` is the number
of thresholds below the row's value, so a row goes right of candidate j if and only if ``bin > j``. Targets lie in
[0, 1]. Every function is compiled at its first call, and the compiled code is kept on disk.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedlearn.cache.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bins = NDArray[np.uint8]


@compiled()
def squared_errors(bins: Bins, y: Floats, order: Integers, start: Integers, stop: Integers, candidates: int) -> Floats:
    """Return (nodes, f * c) sums of squared errors around the two children's means, for every split.

    One pass over a node's rows fills histograms of count and sum; the error is the sum of y^2 less (sum y)^2 / n of
    each side, from prefix sums. An empty side has no error.
    """
    features = bins.shape[1]
    errors = np.empty((len(start), features * candidates))
    counts = np.empty((features, candidates + 1), np.int64)
    sums = np.empty((features, candidates + 1))
    for node in range(len(start)):
        counts[:] = 0
        sums[:] = 0.0
        total = 0.0
        squares = 0.0
        for position in range(start[node], stop[node]):
            row = order[position]
            total += y[row]
            squares += y[row] * y[row]
            for feature in range(features):
                counts[feature, bins[row, feature]] += 1
                sums[feature, bins[row, feature]] += y[row]
        size = stop[node] - start[node]
        for feature in range(features):
            left, left_sum = 0, 0.0
            for j in range(candidates):
                left += counts[feature, j]
                left_sum += sums[feature, j]
                error = squares
                if left > 0:
                    error -= left_sum * left_sum / left
                if size > left:
                    error -= (total - left_sum) * (total - left_sum) / (size - left)
                errors[node, feature * candidates + j] = max(error, 0.0)
    return errors


@compiled()
def absolute_errors(bins: Bins, y: Floats, order: Integers, start: Integers, stop: Integers, candidates: int) -> Floats:
    """Return (nodes, f * c) sums of absolute errors around the two children's medians, for every split.

    The right side of candidate j remains if bins 0 .. j are removed, the left side if the bins above j are removed. So
    each feature costs two runs of `_errors_after_removal`, O(n + c).
    """
    features = bins.shape[1]
    errors = np.zeros((len(start), features * candidates))
    longest = 0
    for node in range(len(start)):
        longest = max(longest, stop[node] - start[node])
    values = np.empty(longest)
    removal = np.empty(longest, np.int64)
    links = np.empty((2, longest + 2), np.int64)
    for node in range(len(start)):
        first, size = start[node], stop[node] - start[node]
        for position in range(size):
            values[position] = y[order[first + position]]
        for feature in range(features):
            ends = np.zeros(candidates + 2, np.int64)  # ends[b + 1] = rows in bins 0 .. b
            for position in range(size):
                ends[bins[order[first + position], feature] + 1] += 1
            for b in range(candidates + 1):
                ends[b + 1] += ends[b]
            place = ends.copy()
            for position in range(size):
                b = bins[order[first + position], feature]
                removal[place[b]] = position
                place[b] += 1
            row = errors[node, feature * candidates : (feature + 1) * candidates]
            row += _errors_after_removal(values[:size], removal[:size], ends[1 : candidates + 1], links)
            from_above = size - ends[candidates:0:-1]
            row += _errors_after_removal(values[:size], removal[:size][::-1], from_above, links)[::-1]
    return errors


@compiled()
def _errors_after_removal(values: Floats, removal: Integers, removed: Integers, links: Integers) -> Floats:
    """Return, for each k, the sum of |value - median| over the values left after the first removed[k] removals.

    `values` ascend; `removal` lists positions in them; `removed` ascends. The values left are a doubly linked list with
    a pointer to the lower median: one removal moves the pointer by at most one step, and the error is ``total - 2 low``
    (plus the median if an odd number is left), where low = sum of all values up to the pointer.
    """
    size = len(values)
    before, after = links[0], links[1]  # indices shifted by one: 0 and size + 1 are the list's ends
    for k in range(size + 2):
        before[k] = k - 1
        after[k] = k + 1
    finger = (size - 1) // 2 + 1
    low, total = 0.0, 0.0
    for k in range(size):
        total += values[k]
        if k + 1 <= finger:
            low += values[k]
    errors = np.zeros(len(removed))
    left = size
    for k in range(len(removed)):
        while size - left < removed[k]:
            gone = removal[size - left] + 1
            total -= values[gone - 1]
            if left % 2 == 1:  # the lower median moves one rank down
                if gone < finger:
                    low -= values[gone - 1]
                else:
                    low -= values[finger - 1]
                    finger = before[finger]
            elif gone <= finger:  # the pointer keeps its rank, now that of the next value
                finger = after[finger]
                low += values[finger - 1] - values[gone - 1]
            after[before[gone]] = after[gone]
            before[after[gone]] = before[gone]
            left -= 1
        if left > 1:
            error = total - 2.0 * low
            if left % 2 == 1:
                error += values[finger - 1]
            errors[k] = max(error, 0.0)
    return errors


@compiled()
def left_sizes(
    bins: Bins, order: Integers, start: Integers, stop: Integers, feature: Integers, cut: Integers
) -> Integers:
    """Return (nodes,) number of rows that go left of each node's split."""
    sizes = np.zeros(len(start), np.int64)
    for node in range(len(start)):
        for position in range(start[node], stop[node]):
            if bins[order[position], feature[node]] <= cut[node]:
                sizes[node] += 1
    return sizes


@compiled()
def route(
    bins: Bins, order: Integers, start: Integers, stop: Integers, feature: Integers, cut: Integers, left: Integers
) -> None:
    """Move each node's left rows before its right rows, in place; both keep their order by target."""
    for node in range(len(start)):
        stretch = order[start[node] : stop[node]].copy()
        low, high = start[node], start[node] + left[node]
        for row in stretch:
            if bins[row, feature[node]] <= cut[node]:
                order[low] = row
                low += 1
            else:
                order[high] = row
                high += 1


@compiled()
def means(y: Floats, order: Integers, start: Integers, stop: Integers, empty: float) -> Floats:
    """Return (nodes,) mean target; `empty` where a node has no row."""
    values = np.full(len(start), empty)
    for node in range(len(start)):
        if stop[node] > start[node]:
            values[node] = y[order[start[node] : stop[node]]].mean()
    return values


@compiled()
def noisy_medians(
    y: Floats, order: Integers, start: Integers, stop: Integers, strength: float, gap_draw: Floats, place_draw: Floats
) -> Floats:
    """Return (nodes,) the printed private median.

    With y_0 = 0 and y_(n+1) = 1, gap k = (y_(k-1), y_k) is drawn with probability proportional to
    ``(y_k - y_(k-1)) exp(-strength |1/2 - F_n(y_k)|)``, F_n(y_k) = min(k, n) / n, then a place in it, uniformly.

    Parameters
    ----------
    strength
        beta N_leaf / 2; infinite: the gap closest to the middle that has any width, the first of equals.
    gap_draw, place_draw
        (nodes,) uniform numbers in [0, 1].
    """
    values = np.empty(len(start))
    for node in range(len(start)):
        size = stop[node] - start[node]
        edges = np.zeros(size + 2)
        edges[size + 1] = 1.0
        edges[1 : size + 1] = y[order[start[node] : stop[node]]]
        distance = np.empty(size + 1)
        nearest = np.inf
        for k in range(size + 1):
            distance[k] = abs(0.5 - min(k + 1, size) / size) if size else 0.5
            if edges[k + 1] > edges[k]:
                nearest = min(nearest, distance[k])
        weights = np.zeros(size + 1)
        for k in range(size + 1):
            if np.isinf(strength):
                weights[k] = 1.0 if distance[k] == nearest and edges[k + 1] > edges[k] else 0.0
            else:
                weights[k] = (edges[k + 1] - edges[k]) * np.exp(strength * (nearest - distance[k]))
        if np.isinf(strength):
            gap = int(np.argmax(weights))
        else:
            goal = gap_draw[node] * weights.sum()
            gap = 0
            while gap < size and (goal >= weights[gap] or weights[gap] == 0.0):
                goal -= weights[gap]
                gap += 1
        values[node] = edges[gap] + place_draw[node] * (edges[gap + 1] - edges[gap])
    return values
