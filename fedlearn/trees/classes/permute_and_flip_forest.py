"""A forest in which every choice is permute-and-flip, with harmonic budgets (eDPRF).

Source: eDPRF, J. Software (China) 2025 no. 7, p. 2935: the split feature and the leaf's label by permute-and-flip,
the budget of a path in shares 1 / (d + 1 - level), a leaf higher up getting all that is left of its path.
Permute-and-flip: McKenna, Sheldon 2020 (arXiv:2010.12603). Ours: that a node may choose to stay a leaf (``penalty``),
and the proofs, in ``categorical`` (composition with missing values), ``class_utilities`` and ``class_growing``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy import Noise, PrivacyAccountant
from fedlearn.trees.classes import growing
from fedlearn.trees.classes.classification import SAMPLINGS, check_forest, lines_of
from fedlearn.trees.classes.classifier import PrivateClassifier, spread_over_trees
from fedlearn.trees.classes.counting import Records
from fedlearn.trees.classes.utilities import FloatArray
from fedlearn.trees.nodes import NodeTable


class PermuteAndFlipForest(PrivateClassifier):
    """Trees whose splits and labels are chosen by permute-and-flip; add or remove one record, pure epsilon.

    Parameters
    ----------
    epsilon
        Budget of the forest, in nats.
    n_estimators
        Number of trees.
    sampling
        ``"disjoint"``: each record draws its tree, every tree has the whole epsilon (parallel composition). ``"same"``:
        every tree sees all records, with epsilon / n_estimators (sequential composition).
    max_depth
        Split levels, at most.
    max_features
        Features that a tree may use, drawn for each tree without looking at the data; None: all.
    penalty
        Records, times the epsilon that is left, that one more child must gain for a node to split rather than to stay a
        leaf; 0: nodes always split. Public, so it costs no privacy. The default is about what a noisy label costs at
        most: with two classes and a lead of g records it is wrong with probability exp(-epsilon g) / 2, which loses g;
        1 / (2 e epsilon) records at the worst g.

    All other parameters and attributes are those of ``DPClassificationTree``.
    """

    choices: ClassVar[dict[str, tuple[str, ...]]] = {**PrivateClassifier.choices, "sampling": SAMPLINGS}

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        n_estimators: int = 3,
        sampling: str = "disjoint",
        max_depth: int = 2,
        max_features: int | None = None,
        penalty: float = 0.2,
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
        self.max_features = max_features
        self.penalty = penalty
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
        if self.max_features is not None and self.max_features < 1:
            raise ValueError(f"max_features = {self.max_features}: must be 1 or more, or None for all")
        if not self.penalty >= 0:
            raise ValueError(f"penalty = {self.penalty}: must be 0 or more")

    def _num_parts(self) -> int:
        return int(self.n_estimators) if self.sampling == "disjoint" else 1

    def _shares(self, num_features: int) -> FloatArray:
        usable = num_features if self.max_features is None else min(self.max_features, num_features)
        return growing.harmonic_shares(min(self.max_depth, usable))

    def _lines(self, num_features: int) -> list[tuple[str, float, int | None]]:
        lines = lines_of(self._shares(num_features), self.epsilon)
        return spread_over_trees(lines, num_trees=self.n_estimators, sampling=self.sampling)

    def _grow(self, records: Records, noise: Noise, rng: np.random.Generator) -> NodeTable:
        num_features = len(records.sizes)
        epsilon = self.epsilon if self.sampling == "disjoint" else self.epsilon / self.n_estimators
        growth, left, counts = growing.grow_by_selection(
            records,
            self._allowed(num_features, rng),
            epsilon=epsilon,
            shares=self._shares(num_features),
            rule=growing.SelectionRule("permute_and_flip", "max", self.penalty),
            noise=noise,
        )
        value = growing.choose_labels(growth, counts, epsilon=left, mechanism="permute_and_flip", noise=noise)
        return growing.table_of(growth, value)

    def _allowed(self, num_features: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Return (trees, features) which features each tree may use."""
        allowed = np.ones((self.n_estimators, num_features), np.bool_)
        if self.max_features is not None and self.max_features < num_features:
            rank = rng.random(allowed.shape).argsort(axis=1).argsort(axis=1)
            allowed = rank < self.max_features
        return allowed
