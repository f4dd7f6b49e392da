"""Utilities of splits from class counts, and their sensitivities.

A candidate feature divides the records of a node into branches b with class counts n_bc (n_b in all); records that
lack the value are in every branch with 1/k of their weight. The utilities, to be maximized:

| criterion | utility | sensitivity |
|---|---|---|
| ``"max"`` | sum_b max_c n_bc: records that the branches' majorities would get right | 1 |
| ``"gini"`` | -sum_b (n_b - sum_c n_bc^2 / n_b) | 2 |
| ``"information_gain"`` | -sum_b sum_c n_bc log2(n_b / n_bc) | (log2(N + 1) + 1 / ln 2) (1 + t) |

N is the declared largest number of records; t, one hundredth at N = 1000 and two classes, pays for data sets of more
records ("Beyond the bound"). (Information gain is the entropy of the node less this sum, over n. The entropy of the
node is the same for all candidates, as under WP every candidate sees all records, so it changes no choice; and not
dividing by n is what bounds the change.)

All three are *monotone*: a record that is added moves the utility of every candidate the same way (up for ``max``, down
for the others) or not at all. So selection by exp(eps u / sensitivity) is eps-private, without the usual factor 2.

Proof, for a record of weight w at the node, w_b in branch b (sum_b w_b = w), of class c.
``max``: the largest of the counts of branch b grows by 0 to w_b: together 0 to w. ``gini``: d/dn_bc (n_b - sum_i
n_bi^2 / n_b) = 1 - 2 p_c + sum_i p_i^2, which is at least (1 - p_c)^2 >= 0 and at most 2. Together 0 to 2 w.
``information_gain``: with f(x) = x log2 x the sum is f(n_b) - sum_c f(n_bc); its change is [f(n_b + w_b) - f(n_b)] -
[f(n_bc + w_b) - f(n_bc)], which is >= 0 as f is convex and n_b >= n_bc, and largest at n_bc = 0, where it is f(n_b +
w_b) - f(n_b) - f(w_b) = w_b log2(n_b / w_b + 1) + n_b log2(1 + w_b / n_b) <= w_b [log2(n_b / w_b + 1) + 1 / ln 2].

With weights, across a level. The change is at most proportional to w for ``max`` and ``gini``, so the nodes of a
level, where the record's weights sum to 1, cost eps together (see `counting`). That is *not* true of the
entropy: w log2(n / w + 1) is more than w log2(n + 1) for w < 1. It still holds in sum: over all branches of all nodes
of a level, whose w_b sum to 1 and whose n_b sum to at most N, concavity of the logarithm (Jensen) gives sum w_b
log2(n_b / w_b + 1) <= log2(sum n_b + 1) <= log2(N + 1). Hence N must be the size of the whole data, *not* of the
node, and it must be declared, not counted. A record is in fewer branches if its weights sum to less than 1; let the
rest lie in a branch of its own to see that the bound stays.

Source: max operator, Friedman, Schuster 2010, section 4.2; sensitivities of Gini (2) and information gain (log(N + 1)
+ 1 / ln 2) for whole records, the same. Monotony, and the extension to weights, are ours.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedlearn.private_trees.classes.class_counting import IntArray

FloatArray = NDArray[np.float64]
ROUNDING = 1e-6  # more than float64 can err in a utility of 10^8 records; the sums of ``max`` are exact
CRITERIA = ("max", "gini", "information_gain")


def utility(criterion: str, counts: FloatArray, offsets: IntArray) -> FloatArray:
    """Return (nodes, features), larger is better, in records (``information_gain``: in bits).

    Parameters
    ----------
    counts
        (nodes, all categories side by side, classes) weights in records, >= 0.
    offsets
        (features,) first category of each feature.
    """
    per_branch = _branch(criterion, counts)
    totals: FloatArray = np.add.reduceat(per_branch, offsets, axis=1)
    return totals


def sensitivity(criterion: str, *, max_records: int | None = None, num_classes: int = 2) -> float:
    """Return the largest change by one record of weight 1; ``max_records`` is the declared size of the whole data.

    >>> sensitivity("max"), round(sensitivity("gini"), 2), round(sensitivity("information_gain", max_records=1023), 2)
    (1.0, 2.0, 11.57)
    """
    if criterion != "information_gain":
        return {"max": 1.0, "gini": 2.0 + ROUNDING}[criterion]
    if max_records is None:
        raise ValueError(
            "max_records is not declared: criterion 'information_gain' has a sensitivity that grows with the "
            "largest number of records that the data could have; declare it, or use criterion='max'"
        )
    reach = reach_of_gain(max_records)
    return reach + math.log2(max(num_classes, 2)) / (math.log(2) * reach)


def reach_of_gain(records: int) -> float:
    """Return the largest change of ``information_gain`` by one record among `records`: log2(n + 1) + 1 / ln 2."""
    return math.log2(records + 1) + 1 / math.log(2) + ROUNDING


def shrink(records: int, *, max_records: int | None) -> float:
    """Return the factor of ``information_gain``: below 1 if there are more records than declared, else 1.

    >>> shrink(1023, max_records=1023), round(shrink(10**6, max_records=1023), 2)
    (1.0, 0.54)
    """
    return 1.0 if max_records is None else reach_of_gain(max_records) / reach_of_gain(max(records, max_records))


def _branch(criterion: str, counts: FloatArray) -> FloatArray:
    """Return (nodes, categories) the contribution of each branch to the utility."""
    if criterion == "max":
        best = counts[:, :, 0]
        for label in range(1, counts.shape[2]):  # numpy's max over a short last axis is ten times slower
            best = np.maximum(best, counts[:, :, label])
        return best
    total = counts.sum(axis=2)
    if criterion == "gini":
        squares = (counts**2).sum(axis=2)
        return np.asarray(np.divide(squares, total, out=np.zeros_like(total), where=total > 0) - total)
    return np.asarray(_times_log(counts).sum(axis=2) - _times_log(total))


def _times_log(x: FloatArray) -> FloatArray:
    """Return x log2 x, 0 at 0."""
    return x * np.log2(x, out=np.zeros_like(x), where=x > 0)
