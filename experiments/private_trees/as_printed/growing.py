"""The DP regression tree and forest, grown as the paper prints them; for comparison only.

**They are not epsilon-DP for the given epsilon.** `true_loss` has their true privacy loss.

Source: Vu, Nguyen 2020, HCMUE Journal of Science 17(12), 2251-2261, algorithms 1 (DPGreedyRegTree) and 2
(DPPartRegForest). With beta = epsilon / (2 l_max + 1), a node is grown in three steps:

1. N = rows + Laplace(1 / beta). At depth l_max, or if N < N_split: a leaf.
2. Feature and threshold by the exponential mechanism over N_range evenly spaced thresholds of every feature; the
   utility is the negative error around the children's means or medians.
3. Noisy sizes of the children; if one is below N_leaf: a leaf. Else both are grown.

A leaf holds mean + Laplace(1 / (N_leaf beta)), or the private median of `kernels.noisy_medians`. A forest is one
tree for each of disjoint parts of the rows, each with the whole epsilon; its prediction is the mean over the trees.

The text is ambiguous, so there are two readings:

========  =============================================  ==================  ==========================  ==============
reading   weight of a split                              a child's N         leaf                        fits table 3
========  =============================================  ==================  ==========================  ==============
fitted    exp(choice_rate beta u), u = -sum of errors    line 3's, reused    clipped to the bounds       yes
literal   exp(beta N_split u / 2), u = -mean error       drawn anew          as it comes                 no
========  =============================================  ==================  ==========================  ==============

A node without rows has no mean; its leaf is the middle of the target bounds, the constant that minimizes the change by
one record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.private_trees.as_printed import kernels
from fedlearn.privacy.noise import Noise
from fedlearn.private_trees.binning import Grid
from fedlearn.private_trees.domain import Domain
from fedlearn.private_trees.node_table import LEAF, NodeTable

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Leaf = Literal["mean", "median"]
Reading = Literal["fitted", "literal"]

CHOICE_RATE = 2.0  # fits table 3 best; at 0.5, the mechanism's own for sensitivity 1, DPMean_Forest fits far worse
MIDDLE = 0.5  # of the target bounds scaled to [0, 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedSettings:
    """Parameters of the printed algorithm; the defaults are the paper's, for a forest."""

    epsilon: float  # > 0; infinite: no noise. The claimed loss of a tree, not the true one
    depth: int = 5  # l_max >= 0, in edges; 15 for a single tree
    min_split: int = 20  # N_split >= 1, compared with a noisy count
    min_leaf: int = 10  # N_leaf >= 1, compared with noisy counts
    candidates: int = 40  # N_range, thresholds of each feature, 1 .. 254
    leaf: Leaf = "mean"  # "mean" with squared errors, "median" with absolute errors
    reading: Reading = "fitted"
    choice_rate: float = CHOICE_RATE  # of the fitted reading: weight exp(choice_rate beta u)

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise ValueError(f"epsilon: {self.epsilon} must be above 0 (math.inf for no noise)")
        if self.depth < 0:
            raise ValueError(f"depth: {self.depth} must be 0 or more")
        for name in ("min_split", "min_leaf"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} must be 1 or more")
        if self.leaf not in ("mean", "median"):
            raise ValueError(f"leaf: {self.leaf!r} must be 'mean' or 'median'")
        if self.reading not in ("fitted", "literal"):
            raise ValueError(f"reading: {self.reading!r} must be 'fitted' or 'literal'")
        if not self.choice_rate > 0:
            raise ValueError(f"choice_rate: {self.choice_rate} must be above 0")

    @property
    def beta(self) -> float:
        """Privacy loss that the paper books for each query: epsilon / (2 l_max + 1)."""
        return self.epsilon / (2 * self.depth + 1)

    @property
    def utility_rate(self) -> float:
        """The factor of the utility in the exponent of a split's weight, divided by beta."""
        return self.min_split / 2 if self.reading == "literal" else self.choice_rate


def grow_printed_tree(
    X: ArrayLike,
    y: ArrayLike,
    *,
    domain: Domain,
    epsilon: float,
    depth: int,
    min_split: int = 20,
    min_leaf: int = 10,
    candidates: int = 40,
    leaf: Leaf = "mean",
    reading: Reading = "fitted",
    choice_rate: float = CHOICE_RATE,
    noise: Noise,
) -> NodeTable:
    """Return one tree of algorithm 1; see `PrintedSettings` for the parameters.

    Parameters
    ----------
    X
        (rows, features), unscaled and without missing values; clipped to the domain, whose features are all numeric.
    y
        (rows,), clipped to the domain's target bounds.
    domain
        Bounds of features and target. The paper takes them from the data, which no epsilon covers.
    noise
        Source of the random numbers.
    """
    settings = PrintedSettings(
        epsilon=epsilon,
        depth=depth,
        min_split=min_split,
        min_leaf=min_leaf,
        candidates=candidates,
        leaf=leaf,
        reading=reading,
        choice_rate=choice_rate,
    )
    parts = np.zeros(len(np.asarray(y)), np.int64)
    return grow_printed_forest(X, y, parts=parts, trees=1, domain=domain, settings=settings, noise=noise)


def grow_printed_forest(
    X: ArrayLike,
    y: ArrayLike,
    *,
    parts: Integers,
    trees: int,
    domain: Domain,
    settings: PrintedSettings,
    noise: Noise,
) -> NodeTable:
    """Return the forest of algorithm 2: one tree for each part, grown together, level by level.

    Parameters
    ----------
    X, y, domain, noise
        As in `grow_printed_tree`.
    parts
        (rows,) the tree of each row, 0 .. trees - 1; a part may be empty.
    """
    features, target = _checked(X, y, domain)
    linear = replace(domain, scale=("linear",) * domain.num_features)
    grid = Grid.of(linear, candidates=settings.candidates)
    order = np.lexsort((target, parts))  # each part's rows side by side, ascending by target
    edges = np.searchsorted(parts[order], np.arange(trees + 1)).astype(np.int64)
    rows = _OrderedRows(grid.codes(features), domain.unit_target(target), order)
    levels = _grow_levels(rows, edges[:-1], edges[1:], settings, noise)
    start, stop, feature, cut, first_child = (np.concatenate(column) for column in zip(*levels, strict=True))
    is_leaf = feature == LEAF
    value = np.full(len(feature), MIDDLE)
    value[is_leaf] = _leaf_values(rows, start[is_leaf], stop[is_leaf], settings, noise)
    low, high = domain.target_bounds
    return NodeTable.of_nodes(
        root=np.arange(trees),
        feature=feature,
        threshold=np.where(is_leaf, np.nan, grid.thresholds[feature, cut]),
        first_child=first_child,
        num_children=np.where(is_leaf, 0, 2),
        value=(low + value * (high - low))[:, None],
    )


def disjoint_parts(num_rows: int, trees: int, rng: np.random.Generator) -> Integers:
    """Return (rows,) the tree of each row: a random partition whose sizes differ by at most one.

    >>> sorted(disjoint_parts(5, 2, np.random.default_rng(0)).tolist())
    [0, 0, 0, 1, 1]
    """
    return rng.permutation(np.arange(num_rows, dtype=np.int64) % trees)


@dataclass(frozen=True, slots=True)
class _OrderedRows:
    """The rows of all trees; `order` is rearranged as trees grow, and each node owns one stretch of it."""

    bins: NDArray[np.uint8]  # (rows, features)
    y: Floats  # (rows,) in [0, 1]
    order: Integers  # (rows,)


_Level = tuple[Integers, Integers, Integers, Integers, Integers]  # start, stop, feature, cut, first_child of its nodes


def _grow_levels(
    rows: _OrderedRows, start: Integers, stop: Integers, settings: PrintedSettings, noise: Noise
) -> list[_Level]:
    """Return the nodes of each level, roots first; -1 stands for the feature, cut and first child of a leaf."""
    levels: list[_Level] = []
    next_node = 0
    noisy_size = np.empty(0)
    for depth in range(settings.depth + 1):
        if depth == 0 or settings.reading == "literal":  # line 1; the fitted reading keeps the child's size of line 3
            noisy_size = stop - start + noise.laplace(1 / settings.beta, start.shape)
        next_node += len(start)
        feature, cut, first_child = (np.full(len(start), LEAF, np.int64) for _ in range(3))
        levels.append((start, stop, feature, cut, first_child))
        asked = np.flatnonzero(noisy_size >= settings.min_split)
        if depth == settings.depth or not len(asked):
            break
        split, child_start, child_stop, child_size = _split(rows, start[asked], stop[asked], settings, noise)
        parents = asked[split.kept]
        feature[parents], cut[parents] = split.feature, split.cut
        first_child[parents] = next_node + 2 * np.arange(len(parents))
        start, stop, noisy_size = child_start, child_stop, child_size
        if not len(parents):
            break
    return levels


@dataclass(frozen=True, slots=True)
class _Split:
    """Decisions about nodes that may split; all fields but `kept` are of the nodes that did."""

    kept: NDArray[np.bool_]  # (asked,) whether both children's noisy sizes reached N_leaf
    feature: Integers
    cut: Integers


def _split(
    rows: _OrderedRows, start: Integers, stop: Integers, settings: PrintedSettings, noise: Noise
) -> tuple[_Split, Integers, Integers, Floats]:
    """Return the splits of the given nodes by lines 2 and 3, with the children's stretches and noisy sizes."""
    feature, cut = _choose(rows, start, stop, settings, noise)
    left = kernels.left_sizes(rows.bins, rows.order, start, stop, feature, cut)
    sizes = np.stack([left, stop - start - left], axis=1)  # (asked, 2)
    noisy_sizes = sizes + noise.laplace(1 / settings.beta, sizes.shape)
    kept = np.asarray((noisy_sizes >= settings.min_leaf).all(axis=1))
    start, stop, feature, cut, left = (column[kept] for column in (start, stop, feature, cut, left))
    kernels.route(rows.bins, rows.order, start, stop, feature, cut, left)
    ends = np.stack([start, start + left, stop], axis=1)  # (kept, 3)
    return _Split(kept, feature, cut), ends[:, :2].ravel(), ends[:, 1:].ravel(), noisy_sizes[kept].ravel()


def _choose(
    rows: _OrderedRows, start: Integers, stop: Integers, settings: PrintedSettings, noise: Noise
) -> tuple[Integers, Integers]:
    """Return the feature and the threshold's position (both (nodes,)) by the exponential mechanism (line 2)."""
    utilities = split_utilities(rows.bins, rows.y, rows.order, start, stop, settings)
    chosen = noise.gumbel_max(utilities, 1 / (settings.utility_rate * settings.beta))
    return chosen // settings.candidates, chosen % settings.candidates


def split_utilities(
    bins: NDArray[np.uint8], y: Floats, order: Integers, start: Integers, stop: Integers, settings: PrintedSettings
) -> Floats:
    """Return (nodes, features * candidates) the utility of every split, candidates of a feature side by side."""
    errors_of = kernels.squared_errors if settings.leaf == "mean" else kernels.absolute_errors
    errors: Floats = errors_of(bins, y, order, start, stop, settings.candidates)
    if settings.reading == "literal":
        errors /= np.maximum(stop - start, 1)[:, None]
    return -errors


def _leaf_values(
    rows: _OrderedRows, start: Integers, stop: Integers, settings: PrintedSettings, noise: Noise
) -> Floats:
    """Return (leaves,) the noisy values, in the scale in which the target lies in [0, 1]."""
    values: Floats
    strength = settings.min_leaf * settings.beta
    if settings.leaf == "mean":
        values = kernels.means(rows.y, rows.order, start, stop, MIDDLE) + noise.laplace(1 / strength, start.shape)
    else:
        off = math.isinf(strength)
        gap, place = (_uniform(noise, len(start), off=off) for _ in range(2))
        values = kernels.noisy_medians(rows.y, rows.order, start, stop, strength / 2, gap, place)
    return np.clip(values, 0, 1) if settings.reading == "fitted" else values


def _uniform(noise: Noise, count: int, *, off: bool) -> Floats:
    """Return (count,) uniform numbers in [0, 1], from Laplace noise by its distribution function; 1/2 if `off`."""
    draw = noise.laplace(0.0 if off else 1.0, (count,))
    return np.asarray(np.where(draw < 0, 0.5 * np.exp(-np.abs(draw)), 1 - 0.5 * np.exp(-np.abs(draw))))


def _checked(X: ArrayLike, y: ArrayLike, domain: Domain) -> tuple[Floats, Floats]:
    features, target = np.ascontiguousarray(X, np.float64), np.ascontiguousarray(y, np.float64)
    if features.ndim != 2 or features.shape[1] != domain.num_features or target.shape != (len(features),):
        shapes = f"X has shape {features.shape} and y {target.shape}"
        raise ValueError(f"{shapes}: expected (rows, {domain.num_features}) and (rows,)")
    if (domain.categories > 0).any():
        raise ValueError("categories: the printed algorithm knows numeric features only; use DPRegressionForest")
    if np.isnan(features).any() or np.isnan(target).any():
        raise ValueError(
            "X or y has missing values (NaN), which the printed algorithm does not know; drop those rows, or use "
            "DPRegressionForest"
        )
    return features, target
