"""Loops over records and cells, in numba: no result depends on the order of records, as all sums are of integers."""

import math

import numpy as np

from fedlearn.cache.compiled import compiled

SUPPORT = 10.0  # curvature that is added to each category's before they are sorted, as scikit-learn has it
LEAST_CURVATURE = 1e-3  # of a child


@compiled()
def squared(score, target, most, scale, weight, out):  # type: ignore[no-untyped-def]
    """Fill (rows, 2) gradient s - y and curvature 1, as whole numbers; `most` is the most that either can be."""
    for row in range(len(target)):
        _put(score[row, 0] - target[row], 1.0, most, scale * weight[row], out[row], 0)


@compiled()
def poisson(score, target, most, scale, weight, out):  # type: ignore[no-untyped-def]
    """Fill (rows, 2) gradient e^s - y and curvature e^s, as whole numbers."""
    for row in range(len(target)):
        mean = math.exp(min(score[row, 0], 700.0))
        _put(mean - target[row], mean, most, scale * weight[row], out[row], 0)


@compiled()
def logistic(score, target, most, scale, weight, out):  # type: ignore[no-untyped-def]
    """Fill (rows, 2 outputs) gradients p - 1[y] and curvatures p (1 - p) of each output, as whole numbers."""
    outputs = score.shape[1]
    odds = np.zeros(outputs)
    for row in range(len(target)):
        if outputs == 1:
            share = 1 / (1 + math.exp(-score[row, 0]))
            _put(share - target[row], share * (1 - share), most, scale * weight[row], out[row], 0)
            continue
        highest, total = score[row].max(), 0.0
        for output in range(outputs):
            odds[output] = math.exp(score[row, output] - highest)
            total += odds[output]
        for output in range(outputs):
            share = odds[output] / total
            hit = 1.0 if target[row] == output else 0.0
            _put(share - hit, share * (1 - share), most, scale * weight[row], out[row], 2 * output)


@compiled()
def _put(gradient, curvature, most, scale, out, at):  # type: ignore[no-untyped-def]
    out[at] = round(min(max(gradient / most[0], -1.0), 1.0) * scale)
    out[at + 1] = round(min(curvature / most[1], 1.0) * scale)


@compiled()
def route(codes, root, feature, child, left, out):  # type: ignore[no-untyped-def]
    """Fill (rows,) the leaf of one tree that each record reaches."""
    for row in range(len(codes)):
        out[row] = _leaf(codes, row, root, feature, child, left)


@compiled()
def _leaf(codes, row, node, feature, child, left):  # type: ignore[no-untyped-def]
    while child[node] >= 0:
        code = codes[row, feature[node]]
        node = child[node] + 1 - ((left[node, code >> 3] >> (code & 7)) & 1)
    return node


@compiled()
def add_up(codes, firsts, nodes, feature, child, left, places, kept, parts, out):  # type: ignore[no-untyped-def]
    """Add gradient, curvature and 1 of each record to the cells of its leaf; `places` has a node's histogram, or -1.

    `nodes` has a node on the way of each record, and is filled with its leaf.
    """
    for row in range(len(codes)):
        nodes[row] = _leaf(codes, row, nodes[row], feature, child, left)
        at = places[nodes[row]]
        if at < 0 or not kept[row]:
            continue
        gradient, curvature = parts[row, 0], parts[row, 1]
        for column in range(codes.shape[1]):
            cell = firsts[column] + codes[row, column]
            out[at, cell, 0] += gradient
            out[at, cell, 1] += curvature
            out[at, cell, 2] += 1


@compiled()
def best_splits(sums, columns, taken, units, rule, limits, left, gain, test, of_left):  # type: ignore[no-untyped-def]
    """Fill, for each node of (nodes, cells, 3) histograms, what `best_split` returns: gain, column and bin, totals."""
    for node in range(len(sums)):
        best = best_split(sums[node], columns, taken[node], units, rule, limits[node], left[node])
        gain[node], test[node, 0], test[node, 1] = best[0], best[1], best[2]
        of_left[node, 0], of_left[node, 1], of_left[node, 2] = best[3], best[4], best[5]


@compiled()
def best_split(sums, columns, taken, units, rule, limits, left):  # type: ignore[no-untyped-def]
    """Return gain, column, bin, and the left side's gradient, curvature and count; fill its cells into `left`.

    Parameters
    ----------
    sums
        (cells, 3) the histograms of a node.
    columns
        (columns, 4) first cell, number of cells of values, whether they are categories, and the monotone constraint.
    taken
        (columns,) whether a column may be tested.
    units
        Gradient and curvature of 1 in the sums.
    rule
        l2_regularization and min_samples_leaf.
    limits
        Lowest and highest value that monotone constraints leave to the node.
    left
        (cells of the widest column,) is filled with whether records of a cell go left.
    """
    whole = sums[: columns[0, 1] + 1].sum(axis=0)
    own = _loss(whole[0] * units[0], whole[1] * units[1], rule[0], limits)
    best, found, numbers = (0.0, -1, -1, np.int64(0), np.int64(0), np.int64(0)), 0, np.arange(len(left))
    best_order, with_missing = numbers, False
    for column in range(len(columns)):
        if not taken[column]:
            continue
        first, size, is_words, sign = columns[column]
        missing = first + size
        order = _order(sums[first : missing + 1], units) if is_words else numbers[:size]
        for missing_left in range(1 if is_words or sums[missing, 2] == 0 else 2):
            g, h, n = sums[missing, 0] * missing_left, sums[missing, 1] * missing_left, sums[missing, 2] * missing_left
            for place in range(len(order)):
                g += sums[first + order[place], 0]
                h += sums[first + order[place], 1]
                n += sums[first + order[place], 2]
                if n < rule[1] or sums[first + order[place], 2] == 0:
                    continue
                if whole[2] - n < rule[1]:
                    break
                gain = _gain(g, h, whole, own, units, rule[0], limits, sign)
                if gain > best[0]:
                    best = (gain, column, -1 if is_words else place, g, h, n)
                    best_order, found, with_missing = order, place + 1, missing_left == 1
    if best[1] >= 0:
        first, size = columns[best[1], 0], columns[best[1], 1]
        left[: size + 1] = 2 * best[5] > whole[2]  # cells without records go with the larger side
        for cell in range(size + 1):
            if sums[first + cell, 2] > 0:
                left[cell] = False
        left[best_order[:found]] = True
        if best[2] >= 0:
            left[best[2] + 1 : size] = False
            left[size] |= with_missing
    return best


@compiled()
def _order(sums, units):  # type: ignore[no-untyped-def]
    """Return the cells that have records, by gradient over curvature; the missing values' is one of them."""
    some = np.flatnonzero(sums[:, 2] > 0)
    ratio = sums[some, 0] * units[0] / (sums[some, 1] * units[1] + SUPPORT)
    return some[np.argsort(ratio, kind="mergesort")]


@compiled()
def _gain(g, h, whole, own, units, l2, limits, sign):  # type: ignore[no-untyped-def]
    """Return how much a split lowers the loss; 0 where a constraint forbids it."""
    left_g, left_h = g * units[0], h * units[1]
    right_g, right_h = (whole[0] - g) * units[0], (whole[1] - h) * units[1]
    if min(left_h, right_h) < LEAST_CURVATURE:
        return 0.0
    if sign and sign * (value_of(right_g, right_h, l2, limits) - value_of(left_g, left_h, l2, limits)) < 0:
        return 0.0
    return own - _loss(left_g, left_h, l2, limits) - _loss(right_g, right_h, l2, limits)


@compiled()
def _loss(g, h, l2, limits):  # type: ignore[no-untyped-def]
    return g * value_of(g, h, l2, limits)


@compiled()
def value_of(g, h, l2, limits):  # type: ignore[no-untyped-def]
    """Return the value of a leaf, -g / (h + l2), within its limits."""
    return min(max(-g / (h + l2 + 1e-15), limits[0]), limits[1])
