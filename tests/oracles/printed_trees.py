"""The printed regression tree, slow and obvious: every error from its definition, every node a list of rows.

The noise is asked level by level in the same order and shapes as the fast version does, so seeded noise gives both the
same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, inf

import numpy as np


@dataclass
class Node:
    rows: list[int]
    noisy_size: float = 0.0
    feature: int = -1
    threshold: float = 0.0
    children: list[Node] = field(default_factory=list)
    value: float = 0.0

    def predict(self, x):
        return self.children[int(x[self.feature] > self.threshold)].predict(x) if self.children else self.value


def error(targets, leaf):
    """Sum of squared errors around the mean, or of absolute errors around the median."""
    if not targets:
        return 0.0
    if leaf == "median":
        ascending = sorted(targets)
        middle = ascending[(len(ascending) - 1) // 2]
        return sum(abs(y - middle) for y in targets)
    return sum(y * y for y in targets) - sum(targets) ** 2 / len(targets)


def thresholds(candidates):
    return [(j + 1) / (candidates + 1) for j in range(candidates)]


def utilities(rows, X, y, s):
    """Every feature and threshold in turn; X and y in [0, 1]."""
    found = []
    for feature in range(X.shape[1]):
        for cut in thresholds(s.candidates):
            sides = [[y[r] for r in rows if (X[r][feature] > cut) == right] for right in (False, True)]
            total = sum(error(side, s.leaf) for side in sides)
            found.append(-total / max(len(rows), 1) if s.reading == "literal" else -total)
    return found


def median_weights(targets, strength):
    """Weights of the n + 1 gaps between the sorted targets, 0 and 1; and their edges."""
    n = len(targets)
    edges = [0.0, *sorted(targets), 1.0]
    share = [min(k, n) / n if n else 1.0 for k in range(1, n + 2)]
    return [(edges[k + 1] - edges[k]) * exp(-strength * abs(0.5 - share[k])) for k in range(n + 1)], edges


def median_without_noise(targets):
    n = len(targets)
    edges = [0.0, *sorted(targets), 1.0]
    wide = [k for k in range(n + 1) if edges[k + 1] > edges[k]]
    gap = min(wide, key=lambda k: abs(0.5 - min(k + 1, n) / n) if n else 0.5)
    return (edges[gap] + edges[gap + 1]) / 2


def grow(X, y, rows, s, noise):
    """One tree over the given rows; X and y in [0, 1]."""
    beta = s.epsilon / (2 * s.depth + 1)
    root = Node(list(rows))
    level, leaves = [root], []
    for depth in range(s.depth + 1):
        if depth == 0 or s.reading == "literal":
            for node, draw in zip(level, noise.laplace(1 / beta, (len(level),)), strict=True):
                node.noisy_size = len(node.rows) + draw
        asked = [node for node in level if depth < s.depth and node.noisy_size >= s.min_split]
        if asked:
            split(asked, X, y, s, beta, noise)
        leaves += [node for node in level if not node.children]
        level = [child for node in level for child in node.children]
        if not level:
            break
    fill(leaves, y, s, beta, noise)
    return root


def split(asked, X, y, s, beta, noise):
    """Give each node the two children that it draws, if their noisy sizes are large enough."""
    rate = (s.min_split / 2 if s.reading == "literal" else s.choice_rate) * beta
    chosen = noise.gumbel_max(np.array([utilities(node.rows, X, y, s) for node in asked]), 1 / rate)
    draws = noise.laplace(1 / beta, (len(asked), 2))
    for node, index, draw in zip(asked, chosen, draws, strict=True):
        feature, cut = index // s.candidates, thresholds(s.candidates)[index % s.candidates]
        sides = [[r for r in node.rows if (X[r][feature] > cut) == right] for right in (False, True)]
        children = [Node(side, len(side) + z) for side, z in zip(sides, draw, strict=True)]
        if all(child.noisy_size >= s.min_leaf for child in children):
            node.feature, node.threshold, node.children = int(feature), cut, children


def fill(leaves, y, s, beta, noise):
    strength = s.min_leaf * beta
    if s.leaf == "mean":
        draws = noise.laplace(1 / strength, (len(leaves),))
        for leaf, draw in zip(leaves, draws, strict=True):
            targets = [y[r] for r in leaf.rows]
            leaf.value = (sum(targets) / len(targets) if targets else 0.5) + draw
    else:
        scale = 0.0 if strength == inf else 1.0
        gaps, places = (uniform(noise.laplace(scale, (len(leaves),))) for _ in range(2))
        for leaf, gap, place in zip(leaves, gaps, places, strict=True):
            leaf.value = private_median([y[r] for r in leaf.rows], strength / 2, gap, place)
    if s.reading == "fitted":
        for leaf in leaves:
            leaf.value = min(max(leaf.value, 0.0), 1.0)


def private_median(targets, strength, gap_draw, place_draw):
    if strength == inf:
        return median_without_noise(targets)
    weights, edges = median_weights(targets, strength)
    k = int(np.searchsorted(np.cumsum(weights), gap_draw * sum(weights), side="right"))
    return edges[k] + place_draw * (edges[k + 1] - edges[k])


def uniform(draws):
    """Laplace noise through its distribution function."""
    return [0.5 * exp(z) if z < 0 else 1 - 0.5 * exp(-z) for z in draws]
