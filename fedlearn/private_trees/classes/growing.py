"""Growth of classification trees, level by level: by private choices, by noisy counts, or without data.

`shares` has the budget of each level; `counting` proves what one record changes in a count, `utilities` in a choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy import Noise, exponential, laplace, permute_and_flip
from fedlearn.private_trees.classes.class_counting import STAY, CodedRecords, Growth, IntArray, count_leaves, count_open
from fedlearn.private_trees.classes.utilities import FloatArray, sensitivity, shrink, utility
from fedlearn.private_trees.node_table import LEAF, NodeTable

Selection = Callable[..., IntArray]
LEAVES = ("label", "counts")  # release of a leaf
SELECTIONS: dict[str, Selection] = {"exponential": exponential, "permute_and_flip": permute_and_flip}
MECHANISMS = ("laplace", *SELECTIONS)  # of splits and leaves: noisy counts, or private choices


@dataclass(frozen=True, slots=True)
class SelectionRule:
    """Rule by which a node chooses the feature of its split.

    A ``penalty`` above 0 (criterion ``max`` only) lets a node stay a leaf: each further child costs ``penalty /
    epsilon`` records, with the epsilon that is left on the path after this choice. This is about the number of records
    that a noisy label gets wrong. Penalties are public numbers for each candidate, so they change no sensitivity.
    Staying a leaf has the utility max_c n_c, of sensitivity 1 and monotone like the others.
    """

    mechanism: str = "permute_and_flip"
    criterion: str = "max"
    penalty: float = 0.0
    max_records: int | None = None


def grow_by_selection(
    records: CodedRecords,
    allowed: NDArray[np.bool_],
    *,
    epsilon: float,
    shares: FloatArray,
    rule: SelectionRule,
    noise: Noise,
) -> tuple[Growth, FloatArray, FloatArray]:
    """Return the trees, (leaves,) the epsilon left for each leaf, and (leaves, classes) its exact counts.

    The exact counts are secret: `choose_labels` publishes a choice from them. The counts of a child follow from its
    parent's counts by category, so the records are read once for each level.

    Parameters
    ----------
    allowed
        (trees, features) features that each tree may use, drawn without looking at the data.
    epsilon
        Budget of each tree, in nats.
    shares
        (depth + 1,) from `even_shares` or `harmonic_shares`; level l costs ``epsilon * shares[l]``.
    """
    growth = Growth(len(allowed), records.sizes)
    left = np.full(len(allowed), float(epsilon))  # (open nodes,)
    totals = np.zeros((0, records.num_classes))  # (open nodes, classes)
    leaf_left, leaf_totals = [], []
    for share in shares[:-1]:
        candidates = allowed & ~growth.open_used
        asked = np.flatnonzero(candidates.any(axis=1))  # nodes with a feature left; depends on published choices alone
        choice = np.full(growth.num_open, STAY, np.int64)
        after = left.copy()
        counts = np.zeros((0, 0, records.num_classes))
        if len(asked):
            counts = count_open(growth, records)
            if growth.level == 0:
                totals = counts[:, : records.sizes[0]].sum(axis=1)  # any feature's categories sum to the node
            after[asked] = np.inf if np.isinf(epsilon) else left[asked] - epsilon * share
            choice[asked] = _choose(
                counts[asked], candidates[asked], records, epsilon * share, after[asked], rule, noise
            )
        elif growth.level == 0:
            break
        leaf_left.append(after[choice == STAY])
        leaf_totals.append(totals[choice == STAY])
        parent, category = growth.split(choice)
        left, allowed = after[parent], allowed[parent]
        totals = counts[parent, records.offsets[choice[parent]] + category] if len(parent) else totals[:0]
    if growth.level == 0:
        _, totals = count_leaves(growth, records)
    return growth, np.concatenate([*leaf_left, left]), np.concatenate([*leaf_totals, totals])


def _choose(
    counts: FloatArray,
    candidates: NDArray[np.bool_],
    records: CodedRecords,
    epsilon: float,
    after: FloatArray,
    rule: SelectionRule,
    noise: Noise,
) -> IntArray:
    """Return (nodes,) the chosen feature of each node, or STAY."""
    scores = utility(rule.criterion, counts, records.offsets)
    if rule.criterion == "information_gain":
        scores *= shrink(len(records.labels), max_records=rule.max_records)
    if rule.penalty:
        scores -= rule.penalty / after[:, None] * (records.sizes - 1)
    scores[~candidates] = -np.inf
    if rule.penalty:
        stay = counts[:, : records.sizes[0]].sum(axis=1).max(axis=1)
        scores = np.column_stack([scores, stay])
    reach = sensitivity(rule.criterion, max_records=rule.max_records, num_classes=records.num_classes)
    chosen = SELECTIONS[rule.mechanism](scores, sensitivity=reach, epsilon=epsilon, noise=noise, monotone=True)
    return np.where(chosen == len(records.sizes), STAY, chosen)


def grow_at_random(
    records: CodedRecords, allowed: NDArray[np.bool_], *, depth: int, rng: np.random.Generator
) -> Growth:
    """Return trees whose nodes split on random features, each unused on its path: no data, no budget."""
    growth = Growth(len(allowed), records.sizes)
    for _ in range(depth):
        candidates = allowed & ~growth.open_used
        drawn = np.where(candidates, rng.random(candidates.shape), -1)
        parent, _ = growth.split(np.where(candidates.any(axis=1), drawn.argmax(axis=1), STAY))
        allowed = allowed[parent]
    return growth


def grow_by_counts(
    records: CodedRecords, *, depth: int, epsilon: float, criterion: str, noise: Noise
) -> tuple[Growth, FloatArray]:
    """Return one tree grown from noisy counts alone (SuLQ-ID3), and (nodes, classes) its noisy counts.

    On each level every node publishes, for each of the m features that its path has not used, the counts by category
    and class, with Laplace noise of scale d m / epsilon. Adding or removing a record changes the histograms of one
    feature, over all nodes of the level, by at most 1 in the L1 norm (`counting`), those of m features by m: each
    feature costs epsilon / (d m), the level epsilon / d, d levels epsilon. (The printed share is B / (d a) throughout;
    features that the path has used need no counts, so m = a - level.) The choice, the class counts of the children (the
    chosen feature's columns) and the test whether a child is too small read published numbers only, and cost nothing.

    Source: SuLQ, Blum et al. 2005, section 4.4; the stopping test is that of Friedman, Schuster 2010, section 4.1.
    """
    growth = Growth(1, records.sizes)
    open_counts = np.zeros((1, records.num_classes))
    node_counts = []
    is_small = np.zeros(1, np.bool_)
    for level in range(depth):
        available = ~growth.open_used
        num_available = len(records.sizes) - level
        scale = 0.0 if np.isinf(epsilon) else depth * num_available / epsilon
        columns = np.repeat(available, records.sizes, axis=1) & ~is_small[:, None]
        noisy = np.zeros((*columns.shape, records.num_classes))
        exact = count_open(growth, records)[columns]
        noisy[columns] = laplace(exact, sensitivity=num_available, epsilon=epsilon / depth, noise=noise)
        scores = utility(criterion, np.maximum(noisy, 0), records.offsets)
        scores[~available] = -np.inf
        choice = np.where(is_small, STAY, scores.argmax(axis=1))
        if level == 0:
            open_counts = noisy.sum(axis=1) / num_available  # mean over features, each of which counts all records once
        node_counts.append(open_counts)
        parent, category = growth.split(choice)
        open_counts = noisy[parent, records.offsets[choice[parent]] + category]
        branches = np.where(growth.open_used, np.iinfo(np.int64).max, records.sizes).min(axis=1)
        is_small = open_counts.sum(axis=1) < np.sqrt(2) * scale * records.num_classes * branches
    return growth, np.concatenate([*node_counts, open_counts])


def choose_labels(
    growth: Growth, counts: FloatArray, *, epsilon: float | FloatArray, mechanism: str, noise: Noise
) -> FloatArray:
    """Return (nodes, classes) with a 1 at each leaf's privately chosen class; inner nodes hold their children's mean.

    ``counts`` are (leaves, classes), exact. The utility of a class is the weight of its records in the leaf: one
    record raises one class by at most its weight there, so the choice is monotone with sensitivity 1, and costs a
    record its weight times the leaf's epsilon.
    """
    chosen = SELECTIONS[mechanism](counts, sensitivity=1.0, epsilon=epsilon, noise=noise, monotone=True)
    value = np.zeros((growth.level_starts()[-1], counts.shape[1]))
    value[growth.leaves(), chosen] = 1.0
    totals = sum_upwards(growth, value)
    return np.asarray(totals / totals.sum(axis=1, keepdims=True))


def counts_of_leaves(growth: Growth, counts: FloatArray, *, epsilon: FloatArray, noise: Noise) -> FloatArray:
    """Return (nodes, classes) shares of the classes from noisy counts of the leaves, smoothed down the tree.

    ``counts`` are (leaves, classes), exact. A record of weight w in a leaf changes its counts by w in the L1 norm, and
    so costs w times the leaf's epsilon, (leaves,): as a label would, and the tree composes as it does with labels.
    """
    node_counts = np.zeros((growth.level_starts()[-1], counts.shape[1]))
    node_counts[growth.leaves()] = laplace(counts, sensitivity=1.0, epsilon=epsilon, noise=noise)
    return smooth_downwards(growth, sum_upwards(growth, node_counts), strength=math.sqrt(2) / epsilon.min())


def count_labels(growth: Growth, records: CodedRecords, *, epsilon: float, noise: Noise) -> FloatArray:
    """Return (nodes, classes) noisy class counts; those of an inner node are the sums over its leaves.

    All counts of a tree together change by at most 1 in the L1 norm (`counting`): Laplace noise of scale 1 /
    epsilon, whatever the number of classes (the printed B / (c n) pays once for each of the c classes, though they
    are disjoint).
    """
    leaves, counts = count_leaves(growth, records)
    node_counts = np.zeros((growth.level_starts()[-1], records.num_classes))
    node_counts[leaves] = laplace(counts, sensitivity=1.0, epsilon=epsilon, noise=noise)
    return sum_upwards(growth, node_counts)


def sum_upwards(growth: Growth, value: FloatArray) -> FloatArray:
    """Return (nodes, outputs): each inner node holds the sum of its children; a copy."""
    total = value.copy()
    starts = growth.level_starts()
    for level in range(growth.level - 1, -1, -1):
        inner = np.flatnonzero(growth.feature[level] != STAY)
        if len(inner):
            # The next level is the children of this level's inner nodes, in order.
            children = total[starts[level + 1] : starts[level + 2]]
            first = growth.first_child[level][inner] - starts[level + 1]
            total[starts[level] + inner] = np.add.reduceat(children, first, axis=0)
    return total


def smooth_downwards(growth: Growth, node_counts: FloatArray, *, strength: float) -> FloatArray:
    """Return (nodes, classes) shares of the classes from noisy counts: post-processing, free.

    Counts below 0 are taken as 0; each node has ``strength`` records more, divided as at its parent (at a root:
    evenly), so that a leaf in which there is more noise than records says what its parent says.
    """
    shares = np.maximum(node_counts, 0)
    starts = growth.level_starts()
    prior = np.full((growth.num_trees, shares.shape[1]), 1 / shares.shape[1])
    for level in range(growth.level + 1):
        here = shares[starts[level] : starts[level + 1]]
        here += max(strength, 1e-9) * prior
        here /= here.sum(axis=1, keepdims=True)
        if level < growth.level:
            feature = growth.feature[level]
            prior = np.repeat(here, np.where(feature == STAY, 0, growth.sizes[feature]), axis=0)
    return shares


def table_of(growth: Growth, value: FloatArray) -> NodeTable:
    """Return the node table; all trees weigh the same."""
    feature, first_child = growth.nodes()
    children = np.where(feature == LEAF, 0, growth.sizes[feature])
    return NodeTable.of_nodes(
        root=np.arange(growth.num_trees),
        feature=feature,
        threshold=np.full(len(feature), np.nan),
        first_child=first_child,
        num_children=children,
        value=value,
    )
