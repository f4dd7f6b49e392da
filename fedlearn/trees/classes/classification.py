"""Private classification trees and random decision forests over categorical features with missing values.

SuLQ-ID3 (Blum et al. 2005; Friedman, Schuster 2010) by Laplace counts or by one private selection per node; random
decision trees (Fan et al. 2003; Jagannathan et al. 2009) with private leaves; weight partition (WP) for missing
values, in training and in prediction. Proofs: counts and composition in ``categorical``, utilities in
``class_utilities``, budgets in ``class_growing``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from fedlearn.privacy import Noise, PrivacyAccountant
from fedlearn.trees.as_printed.id3 import REASON, grow_as_printed
from fedlearn.trees.classes import growing
from fedlearn.trees.classes.classifier import PrivateClassifier, spread_over_trees
from fedlearn.trees.classes.counting import Growth, Records, count_leaves
from fedlearn.trees.classes.utilities import CRITERIA, FloatArray, sensitivity
from fedlearn.trees.nodes import NodeTable

MECHANISMS = ("laplace", "exponential", "permute_and_flip")
SAMPLINGS = ("disjoint", "same")


class DPClassificationTree(PrivateClassifier):
    """One ID3 tree: a node has a child for each category of its feature, and no path uses a feature twice.

    Add or remove one record, pure epsilon. ``mechanism="laplace"``: noisy counts of every feature that is left on the
    path, all else follows from them. ``"exponential"``, ``"permute_and_flip"``: one choice per node and one label per
    leaf, epsilon / (depth + 1) each along a path.

    Parameters
    ----------
    epsilon
        Budget, in nats; ``math.inf`` for no noise.
    max_depth
        Split levels; at most the number of features.
    mechanism
        ``"laplace"``, ``"exponential"`` or ``"permute_and_flip"``.
    criterion
        ``"max"``, ``"gini"`` or ``"information_gain"`` (see ``class_utilities``).
    max_records
        Declared largest number of records the data could have; needed by ``"information_gain"`` under selection.
    categories
        For each feature its list of categories, or their number k if X holds codes 0 .. k - 1; a mapping by name or
        position, or a sequence.
    bins
        For numeric features instead: ascending edges, by name or position.
    classes
        The labels that can occur.
    class_weight
        Declared weight of each label, or None; records of the heaviest weigh 1.
    missing
        ``"wp"`` divides a record over all children of a node whose feature it lacks, in training and in prediction;
        ``"drop"`` leaves incomplete records out, and does not vote on rows whose path needs what they lack.
    mode
        ``"rigorous"``, or ``"paper"``: the printed accounting, which is *not private* (see ``paper_id3``).
    noise
        ``"secure"`` or ``"seeded"`` (reproducible, protects nobody; needs ``random_state``).
    random_state
        Seed of all that needs no protection.
    accountant
        Is asked for epsilon before the data is touched; None: an account of its own.
    bounds_from_data
        Take undeclared categories, bins and classes from the data; *not private*.

    Attributes
    ----------
    table_
        The tree as a ``NodeTable``; values are shares of the classes.
    privacy_spent_
        What was spent, by level; epsilon is infinite if the fit must not be called private.
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn.
    """

    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        **PrivateClassifier.choices,
        "mechanism": MECHANISMS,
        "criterion": CRITERIA,
        "mode": ("rigorous", "paper"),
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        max_depth: int = 2,
        mechanism: str = "permute_and_flip",
        criterion: str = "max",
        max_records: int | None = None,
        categories: Any = None,
        bins: Any = None,
        classes: Sequence[object] | None = None,
        class_weight: Mapping[object, float] | None = None,
        missing: str = "wp",
        mode: str = "rigorous",
        noise: str = "secure",
        random_state: Any = None,
        accountant: PrivacyAccountant | None = None,
        bounds_from_data: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.max_depth = max_depth
        self.mechanism = mechanism
        self.criterion = criterion
        self.max_records = max_records
        self.categories = categories
        self.bins = bins
        self.classes = classes
        self.class_weight = class_weight
        self.missing = missing
        self.mode = mode
        self.noise = noise
        self.random_state = random_state
        self.accountant = accountant
        self.bounds_from_data = bounds_from_data

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.max_depth < 0:
            raise ValueError(f"max_depth = {self.max_depth}: must be 0 or more")
        if self.mode == "rigorous" and self.mechanism != "laplace":
            sensitivity(self.criterion, max_records=self.max_records)

    def _num_parts(self) -> int:
        return 1

    def _reasons_against(self) -> list[str]:
        return super()._reasons_against() + ([REASON] if self.mode == "paper" else [])

    def _lines(self, num_features: int) -> list[tuple[str, float, int | None]]:
        depth = min(self.max_depth, num_features)
        if self.mechanism == "laplace":
            if not depth:
                return [("class counts", self.epsilon, 0)]
            return [("noisy counts of all features left", self.epsilon / depth, level) for level in range(depth)]
        return lines_of(growing.even_shares(depth), self.epsilon)

    def _grow(self, records: Records, noise: Noise, rng: np.random.Generator) -> NodeTable:
        if self.max_records is not None and len(records.labels) > self.max_records:
            raise ValueError(f"max_records = {self.max_records}, but there are more: declare a bound that holds")
        depth = min(self.max_depth, len(records.sizes))
        if self.mode == "paper":
            growth, value = grow_as_printed(
                records, depth=depth, epsilon=self.epsilon, mechanism=self.mechanism, noise=noise
            )
        elif self.mechanism == "laplace":
            growth, value = self._grow_by_counts(records, depth, noise)
        else:
            rule = growing.SelectionRule(self.mechanism, self.criterion, 0.0, self.max_records)
            growth, left, counts = growing.grow_by_selection(
                records,
                np.ones((1, len(records.sizes)), np.bool_),
                epsilon=self.epsilon,
                shares=growing.even_shares(depth),
                rule=rule,
                noise=noise,
            )
            value = growing.choose_labels(growth, counts, epsilon=left, mechanism=self.mechanism, noise=noise)
        return growing.table_of(growth, value)

    def _grow_by_counts(self, records: Records, depth: int, noise: Noise) -> tuple[Growth, FloatArray]:
        if not depth:
            growth = Growth(1, records.sizes)
            counts = growing.count_labels(growth, records, epsilon=self.epsilon, noise=noise)
            return growth, growing.smooth_downwards(growth, counts, strength=1 / self.epsilon)
        growth, counts = growing.grow_by_counts(
            records, depth=depth, epsilon=self.epsilon, criterion=self.criterion, noise=noise
        )
        scale = depth * (len(records.sizes) - depth + 1) / self.epsilon  # of the noise on the last level
        return growth, growing.smooth_downwards(growth, counts, strength=math.sqrt(2) * scale)


class DPRandomForestClassifier(PrivateClassifier):
    """Random decision trees: structure drawn without data, so that the whole budget goes to the leaves.

    Add or remove one record, pure epsilon. On disjoint parts (each record draws its tree, by itself) every tree has
    the whole epsilon: parallel composition. On the same data every tree has epsilon / n_estimators: sequential
    composition.

    Parameters
    ----------
    n_estimators
        Number of trees.
    sampling
        ``"disjoint"`` or ``"same"``. (Drawing with repetition is not offered: a record drawn m times costs m times as
        much.)
    max_depth
        Split levels.
    mechanism
        ``"laplace"``: noisy class counts at the leaves, smoothed; the trees' shares of the classes are averaged.
        ``"exponential"``, ``"permute_and_flip"``: one label for each leaf; the trees vote.

    All other parameters and attributes are those of ``DPClassificationTree``.
    """

    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        **PrivateClassifier.choices,
        "mechanism": MECHANISMS,
        "sampling": SAMPLINGS,
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        n_estimators: int = 10,
        sampling: str = "disjoint",
        max_depth: int = 3,
        mechanism: str = "laplace",
        categories: Any = None,
        bins: Any = None,
        classes: Sequence[object] | None = None,
        class_weight: Mapping[object, float] | None = None,
        missing: str = "wp",
        noise: str = "secure",
        random_state: Any = None,
        accountant: PrivacyAccountant | None = None,
        bounds_from_data: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.n_estimators = n_estimators
        self.sampling = sampling
        self.max_depth = max_depth
        self.mechanism = mechanism
        self.categories = categories
        self.bins = bins
        self.classes = classes
        self.class_weight = class_weight
        self.missing = missing
        self.noise = noise
        self.random_state = random_state
        self.accountant = accountant
        self.bounds_from_data = bounds_from_data

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_forest(self.n_estimators, self.max_depth)

    def _num_parts(self) -> int:
        return int(self.n_estimators) if self.sampling == "disjoint" else 1

    def _lines(self, num_features: int) -> list[tuple[str, float, int | None]]:
        what = "class counts of the leaves" if self.mechanism == "laplace" else "labels of the leaves"
        return spread_over_trees([(what, self.epsilon, None)], num_trees=self.n_estimators, sampling=self.sampling)

    def _grow(self, records: Records, noise: Noise, rng: np.random.Generator) -> NodeTable:
        allowed = np.ones((self.n_estimators, len(records.sizes)), np.bool_)
        growth = growing.grow_at_random(records, allowed, depth=self.max_depth, rng=rng)
        epsilon = self.epsilon if self.sampling == "disjoint" else self.epsilon / self.n_estimators
        if self.mechanism == "laplace":
            counts = growing.count_labels(growth, records, epsilon=epsilon, noise=noise)
            value = growing.smooth_downwards(growth, counts, strength=math.sqrt(2) / epsilon)
        else:
            _, counts = count_leaves(growth, records)
            value = growing.choose_labels(growth, counts, epsilon=epsilon, mechanism=self.mechanism, noise=noise)
        return growing.table_of(growth, value)


def lines_of(shares: FloatArray, epsilon: float) -> list[tuple[str, float, int | None]]:
    """Return the lines of a path: a choice on each level but the last, a label there."""
    choices = [("choice of the feature", float(epsilon * share), level) for level, share in enumerate(shares[:-1])]
    return [*choices, ("label of the leaf", float(epsilon * shares[-1]), len(shares) - 1)]


def check_forest(n_estimators: int, max_depth: int) -> None:
    """Refuse a forest without trees, or of negative depth."""
    if n_estimators < 1:
        raise ValueError(f"n_estimators = {n_estimators}: must be 1 or more")
    if max_depth < 0:
        raise ValueError(f"max_depth = {max_depth}: must be 0 or more")
