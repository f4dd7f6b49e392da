"""Forests whose splits and labels are chosen by permute-and-flip, with harmonic budgets (eDPRF).

Source: eDPRF, J. Software (China) 2025 no. 7, p. 2935: the split feature and the leaf's label by permute-and-flip,
the budget of a path in shares 1 / (d + 1 - level); a leaf gets the whole rest of its path.
Permute-and-flip: McKenna, Sheldon 2020 (arXiv:2010.12603). Ours: that a node may choose to stay a leaf (``penalty``),
and the proofs, in `counting` (composition with missing values), `utilities` and `shares`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy import Noise
from fedlearn.private_trees.classes import growing
from fedlearn.private_trees.classes.class_counting import CodedRecords
from fedlearn.private_trees.classes.classifier import WeightedClassifier
from fedlearn.private_trees.classes.rule import depth_for, trees_for
from fedlearn.private_trees.classes.shares import SAMPLINGS, Line, harmonic_shares, lines_of_choices, spread_over_trees
from fedlearn.private_trees.classes.utilities import FloatArray
from fedlearn.private_trees.described import described
from fedlearn.private_trees.node_table import NodeTable
from fedlearn.private_trees.parameters import Rule, at_least, none_or, one_of


@described
@dataclass(kw_only=True, eq=False, repr=False)
class PermuteAndFlipForest(WeightedClassifier):
    """A forest whose splits and labels are chosen by permute-and-flip, with harmonic budgets (eDPRF).

    Pure epsilon, add or remove one record. Proofs: composition in `counting`, utilities in `utilities`.

    Parameters
    ----------
    n_estimators : int or None, default=None
        Number of trees, 1 or more. None: by the rule in `rule`, from epsilon, records and columns.
    sampling : {"disjoint", "same"}, default="disjoint"
        ``"disjoint"``: each record draws its tree independently, and every tree has the whole epsilon (parallel
        composition). ``"same"``: every tree sees all records, with epsilon / n_estimators (sequential composition).
    max_depth : int or None, default=None
        Levels of splits, 0 or more; at most the number of features. None: by the same rule.
    max_features : int or None, default=None
        Number of features of a tree, 1 or more, drawn for each tree without data. None: all.
    penalty : float, default=0.2
        Gain that a split needs for each further child, in records times the epsilon left; else the node stays a leaf.
        0: nodes always split. The penalty is public, so it costs no privacy. The default is about the largest expected
        loss by a noisy label: with two classes and a lead of g records, the label is wrong with probability
        exp(-epsilon g) / 2 and then loses g records; at the worst g this is 1 / (2 e epsilon) records.
    leaf : {"counts", "label"}, default="counts"
        Release of a leaf, at the same price: smoothed noisy counts of all classes, from which probabilities follow; or
        its likeliest class alone.

    Attributes
    ----------
    table_ : NodeTable
        The trees; values are shares of the classes. All of it may be published.
    n_estimators_ : int
        Number of trees, as given or by the rule.

    References
    ----------
    .. [1] eDPRF, J. Software (China) 2025 no. 7, p. 2935; that a node may stay a leaf is ours.
    .. [2] McKenna, Sheldon 2020, arXiv:2010.12603: permute-and-flip.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.choice(["red", "green"], 2000), rng.choice(["s", "m", "l"], 2000)])
    >>> y = np.where(X[:, 0] == "red", "stop", "go")
    >>> declared = {"categories": [["red", "green"], ["s", "m", "l"]], "classes": ["go", "stop"]}
    >>> forest = PermuteAndFlipForest(epsilon=1.0, **declared, noise="seeded", random_state=0).fit(X, y)
    >>> print(forest.privacy_spent_)
    epsilon = 1 (add or remove one record; unit: record; not secure: protects nobody)
    >>> forest.predict([["red", "m"], ["green", None]])
    array(['stop', 'go'], dtype='<U4')
    """

    n_estimators: int | None = None
    sampling: str = "disjoint"
    max_depth: int | None = None
    max_features: int | None = None
    penalty: float = 0.2
    leaf: str = "counts"

    ranges: ClassVar[dict[str, Rule]] = {
        **WeightedClassifier.ranges,
        "sampling": one_of(*SAMPLINGS),
        "n_estimators": none_or(at_least(1)),
        "max_depth": none_or(at_least(0)),
        "n_declared": none_or(at_least(0)),
        "max_features": none_or(at_least(1)),
        "penalty": at_least(0),
        "leaf": one_of(*growing.LEAVES),
    }

    def _num_parts(self) -> int:
        return self.n_estimators_ if self.sampling == "disjoint" else 1

    def _check_parameters(self) -> None:
        super()._check_parameters()
        # The rule replaces the ones that are not given.
        self.max_depth_, self.n_estimators_ = self.max_depth or 0, self.n_estimators or 1

    def _has_rule(self) -> bool:
        return self.max_depth is None or self.n_estimators is None

    def _follow_rule(self, records: float, columns: int) -> None:
        if self.n_estimators is None:
            self.n_estimators_ = trees_for(self._epsilon_, records)
        if self.max_depth is None:
            self.max_depth_ = depth_for(self._epsilon_, records, columns)

    def _shares(self, num_features: int) -> FloatArray:
        usable = num_features if self.max_features is None else min(self.max_features, num_features)
        return harmonic_shares(min(self.max_depth_, usable))

    def _lines(self, num_features: int) -> list[Line]:
        lines = lines_of_choices(self._shares(num_features), self._epsilon_, leaf=self.leaf)
        return spread_over_trees(lines, num_trees=self.n_estimators_, sampling=self.sampling)

    def _grow(self, records: CodedRecords, noise: Noise, rng: np.random.Generator) -> NodeTable:
        num_features = len(records.sizes)
        epsilon = self._epsilon_ if self.sampling == "disjoint" else self._epsilon_ / self.n_estimators_
        growth, left, counts = growing.grow_by_selection(
            records,
            self._allowed(num_features, rng),
            epsilon=epsilon,
            shares=self._shares(num_features),
            rule=growing.SelectionRule("permute_and_flip", "max", self.penalty),
            noise=noise,
        )
        if self.leaf == "counts":
            value = growing.counts_of_leaves(growth, counts, epsilon=left, noise=noise)
        else:
            value = growing.choose_labels(growth, counts, epsilon=left, mechanism="permute_and_flip", noise=noise)
        return growing.table_of(growth, value)

    def _allowed(self, num_features: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Return (trees, features) whether each tree may use each feature."""
        allowed = np.ones((self.n_estimators_, num_features), np.bool_)
        if self.max_features is not None and self.max_features < num_features:
            rank = rng.random(allowed.shape).argsort(axis=1).argsort(axis=1)
            allowed = rank < self.max_features
        return allowed
