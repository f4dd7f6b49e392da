"""Division of a classification tree's budget over its levels, and the account's lines about it.

A tree with D levels of splits makes one choice per node on levels 0 .. D - 1, and one release per leaf: D + 1 queries
on the longest path. Level l gets the share ``shares[l]`` of epsilon, the shares sum to 1, and a leaf gets *the whole
rest of its path*: the last share if it is on level D, more if it is higher up. So every path spends exactly epsilon,
and by the composition law in `counting` the tree is epsilon-private.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
SAMPLINGS = ("disjoint", "same")  # records of each tree of a forest
Line: TypeAlias = tuple[str, float, int | None]  # of an account: purpose, epsilon, level


def even_shares(depth: int) -> FloatArray:
    """Return (depth + 1,) equal shares for each level of splits and for the leaf."""
    return np.full(depth + 1, 1 / (depth + 1))


def harmonic_shares(depth: int) -> FloatArray:
    """Return (depth + 1,) shares in proportion to 1 / (depth + 1 - level): deeper nodes are smaller and need more.

    Source: eDPRF, J. Software (China) 2025 no. 7, p. 2935, figure 3.

    >>> harmonic_shares(2).round(2).tolist()
    [0.18, 0.27, 0.55]
    """
    weights = 1 / np.arange(depth + 1, 0, -1)
    return np.asarray(weights / weights.sum())


def lines_of_choices(shares: FloatArray, epsilon: float, *, leaf: str = "label") -> list[Line]:
    """Return the lines of a path: a choice on each level of splits, then a label or counts of the leaf."""
    what = {"label": "label of the leaf", "counts": "class counts of the leaf"}[leaf]
    choices = [("choice of the feature", float(epsilon * share), level) for level, share in enumerate(shares[:-1])]
    return [*choices, (what, float(epsilon * shares[-1]), len(shares) - 1)]


def lines_of_counts(depth: int, epsilon: float) -> list[Line]:
    """Return the lines of a tree that is grown from noisy counts alone: one for each level of splits."""
    if not depth:
        return [("class counts", epsilon, 0)]
    return [("noisy counts of all features left", epsilon / depth, level) for level in range(depth)]


def spread_over_trees(lines: list[Line], *, num_trees: int, sampling: str) -> list[Line]:
    """Return the lines with the words for their composition over the trees; epsilons already include all trees."""
    if num_trees == 1:
        return lines
    how = {
        "disjoint": f"largest of {num_trees} trees on disjoint parts",
        "same": f"sum over {num_trees} trees on the same data",
    }[sampling]
    return [(f"{what}, {how}", epsilon, level) for what, epsilon, level in lines]
