"""Base of all private classifiers over categories: declaration, budget, order of a fit, prediction.

A fit follows a fixed order. The account is checked before X or y is read; then the form of the input is checked; then
the budget is booked, line by line; only then are records counted. The budget stays booked even if the fit fails
afterwards.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fedlearn.privacy import (
    Noise,
    PrivacyAccountant,
    disjoint_parts,
    geometric,
    secure_noise,
    seeded_noise,
)
from fedlearn.private_trees.accounts import account_for
from fedlearn.private_trees.binning import MISSING
from fedlearn.private_trees.classes.class_counting import ONE, CodedRecords, IntArray
from fedlearn.private_trees.classes.encoding import Encoding
from fedlearn.private_trees.classes.rule import NUMBER_SHARE
from fedlearn.private_trees.classes.shares import Line
from fedlearn.private_trees.declared_input import DeclaredInput, check_classes, classes_of
from fedlearn.private_trees.node_table import NodeTable
from fedlearn.private_trees.parameters import COMMON, Rule, check_parameters
from fedlearn.private_trees.predicting import leaf_of_rows, predict
from fedlearn.private_trees.table_cells import names_of
from fedlearn.private_trees.tree_drawing import Drawable, Words
from fedlearn.private_trees.weights import MAX_WEIGHT, UNIT, Whole, check_declared, refuse_weights, shares_of

FloatArray = NDArray[np.float64]


class PrivateClassifier(Drawable, ClassifierMixin, DeclaredInput):  # type: ignore[misc]
    """A classifier over categorical features, private for each record: add or remove one record, pure epsilon.

    Parameters
    ----------
    categories : mapping or sequence, default=None
        Categories of each feature as a list, or as their number k if X holds codes 0 .. k - 1; by name or position, or
        one entry for each feature. Never learned from the data.
    bins : mapping, default=None
        Ascending bin edges of numeric features, by name or position.
    classes : sequence, default=None
        The labels that can occur.
    class_weight : mapping or None, default=None
        Declared weight of each label, above 0; records of the heaviest label weigh 1. None: all labels weigh the same.
    missing : {"wp", "drop"}, default="wp"
        ``"wp"`` (weight partition): a record without the value is divided over all children of the node, in training
        and in prediction. ``"drop"``: incomplete records are left out, and a tree does not vote on a row whose path
        needs a missing value.
    bounds_from_data : bool, default=False
        Whether to take undeclared categories, bins and classes from the data, with a warning: *not private*;
        ``privacy_spent_`` has an infinite epsilon.

    Attributes
    ----------
    classes_ : ndarray of shape (classes,)
        The labels, sorted.
    """

    n_declared: float | None = None  # a parameter of the classifiers that follow a rule
    bounds: Any = None  # a parameter of the classifiers that follow a rule
    categories: Any
    bins: Any
    classes: Sequence[object] | None
    class_weight: Mapping[object, float] | None
    missing: str
    max_weight: float | None = None  # a parameter of the classifiers that take weights

    ranges: ClassVar[dict[str, Rule]] = {**COMMON, "max_weight": MAX_WEIGHT}

    def fit(self, X: Any, y: Any, **not_taken: Any) -> Self:
        """Grow the trees; the account is checked before the data is read.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, features)
            Declared categories, or numbers with declared bins. None, NaN and undeclared categories are missing. X may
            have no rows.
        y : array-like of shape (n,)
            Labels; rows whose label is not a declared class are left out.

        Returns
        -------
        self

        Raises
        ------
        BudgetExceeded
            If the account does not cover epsilon; nothing is booked and no data is read.
        ValueError
            If a parameter is out of its range, or X and y are not as they were declared.
        """
        refuse_weights(not_taken, owner=type(self).__name__)
        return self._fit(X, y)

    def _fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        self._check_parameters()
        check_declared(sample_weight, max_weight=self.max_weight, owner=type(self).__name__)
        account_for(self, self._costs(self._reasons_against()), by="a private tree")
        X, y = self._checked_pair(X, y)
        whole = shares_of(sample_weight, rows=len(y), max_weight=self.max_weight)
        encoding = self._encoding(X)
        self.classes_, labels = classes_of(self.classes, y)
        seeds = np.random.SeedSequence(int(check_random_state(self.random_state).randint(2**31))).spawn(3)
        is_secure = self.noise == "secure"
        # Parts of the data are drawn afresh and not kept (`disjoint_parts`); structure drawn without data may be known.
        parts = np.random.default_rng() if is_secure else np.random.default_rng(seeds[2])
        noise = secure_noise() if is_secure else seeded_noise(seeds[0])
        self._book(self._reasons_against(), labels, whole, len(encoding.sizes), noise)
        records = self._records(X, labels, whole, encoding, parts)
        self._encoding_ = encoding
        self.table_ = self._grow(records, noise, np.random.default_rng(seeds[1]))
        self.notice_ = "; ".join(filter(None, [noise.notice, *self._reasons_against()]))
        return self

    @abstractmethod
    def _grow(self, records: CodedRecords, noise: Noise, rng: np.random.Generator) -> NodeTable:
        """Return the trees; `rng` is for draws that need no protection."""

    @abstractmethod
    def _lines(self, num_features: int) -> list[Line]:
        """Return the lines of the account, (purpose, epsilon, level); their sum is ``epsilon``."""

    @abstractmethod
    def _num_parts(self) -> int:
        """Return the number of disjoint parts of the records."""

    def predict_proba(self, X: Any) -> FloatArray:
        """Return (n, classes) probabilities: the mean over the trees' leaves; ``missing`` decides about missing values.

        ``"wp"``: the row goes to all children of a node whose feature it lacks, divided evenly. ``"drop"``: the tree
        does not vote; if no tree votes, the row gets the mean over all leaves.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, features)
            As in `fit`; a category that was not declared counts as missing.
        """
        coded = self._coded(X)
        votes = predict(self.table_, coded) if self.missing == "wp" else self._vote_where_complete(coded)
        return np.asarray(votes / votes.sum(axis=1, keepdims=True))

    def _coded(self, X: Any) -> FloatArray:
        """Return (n, features) codes, NaN = missing."""
        check_is_fitted(self)
        codes = self._encoding_.encode(self._checked(X, reset=False))
        return np.where(codes == MISSING, np.nan, codes)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return (n,) the likeliest class of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, features)
            As in `fit`; a category that was not declared counts as missing.
        """
        likeliest = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def _words(self, decimals: int) -> Words:
        names = names_of(self) or [f"feature {feature}" for feature in range(self.n_features_in_)]
        codes = [self._encoding_.words(feature, name) for feature, name in enumerate(names)]
        return Words(names, codes, [str(each) for each in self.classes_], decimals)

    def _vote_where_complete(self, coded: FloatArray) -> FloatArray:
        leaves = leaf_of_rows(self.table_, coded)  # (n, trees), -1 = a value is missing on the path
        votes = np.where((leaves >= 0)[:, :, None], self.table_.value[leaves], 0.0).sum(axis=1)
        votes[(leaves < 0).all(axis=1)] = self.table_.value[self.table_.root].mean(axis=0)
        return np.asarray(votes)

    def _check_parameters(self) -> None:
        check_parameters(self, self.ranges)
        check_classes(self.classes, bounds_from_data=self.bounds_from_data)

    def _costs(self, reasons: Sequence[str]) -> float:
        return math.inf if reasons else float(self.epsilon)

    def _reasons_against(self) -> list[str]:
        """Return the reasons why this fit is not private; empty if it is private."""
        return ["NOT PRIVATE: categories, bins or classes are taken from the data"] if self.bounds_from_data else []

    def _book(self, reasons: list[str], labels: IntArray, whole: Whole, num_features: int, noise: Noise) -> None:
        """Book every release of the fit; if the rule needs the number of records, release it first."""
        own = PrivacyAccountant(math.inf)

        def spend(lines: Sequence[Line]) -> None:
            for account in (own, *([self.accountant] if self.accountant is not None else [])):
                for what, epsilon, level in lines:
                    account.spend(epsilon, what=what, level=level, is_secure=self.noise == "secure" and not reasons)

        spend([(reason, math.inf, None) for reason in reasons])
        self._epsilon_ = float(self.epsilon)  # budget of the trees
        if self._has_rule():
            unit = 1 if whole is None else UNIT
            counted = int(np.count_nonzero(labels >= 0) if whole is None else whole[labels >= 0].sum())
            number = counted / unit if self.n_declared is None else float(self.n_declared)
            if self.n_declared is None and not math.isinf(self.epsilon):
                share = NUMBER_SHARE * self.epsilon
                spend([("number of records", share, None)])
                number = float(geometric(np.array([counted]), sensitivity=unit, epsilon=share, noise=noise)[0] / unit)
                self._epsilon_ -= share
            self._follow_rule(max(number, 1.0), num_features)
        spend(self._lines(num_features))
        self.privacy_spent_ = own.spent

    def _has_rule(self) -> bool:
        """Return whether a parameter follows from the number of records."""
        return False

    def _follow_rule(self, records: float, columns: int) -> None:
        """Set the parameters that follow from the public number of records."""

    def _encoding(self, X: Any) -> Encoding:
        if self.categories is None and self.bins is None and self.bounds is None and self.bounds_from_data:
            return Encoding.from_data(X)
        return Encoding.declare(
            self.n_features_in_, categories=self.categories, bins=self.bins, bounds=self.bounds, names=names_of(self)
        )

    def _records(
        self, X: Any, labels: IntArray, whole: Whole, encoding: Encoding, parts: np.random.Generator
    ) -> CodedRecords:
        codes = encoding.encode(X)
        kept = labels >= 0
        if self.missing == "drop":
            kept &= np.logical_and.reduce([column != MISSING for column in codes.T])
        if not kept.all():
            codes, labels = codes[kept], labels[kept]
            whole = None if whole is None else whole[kept]
        count = self._num_parts()
        tree = disjoint_parts(len(labels), count=count, rng=parts) if count > 1 else np.full(len(labels), -1)
        of_class = self._class_weights()
        weights = of_class[labels] if (of_class < ONE).any() else np.full(len(labels), ONE)
        if whole is not None:
            weights = weights * whole // UNIT
        return CodedRecords(codes, labels, weights, tree, encoding.sizes, len(self.classes_))

    def _class_weights(self) -> IntArray:
        """Return (classes,) declared weights in units; the heaviest record weighs 1, as the proofs require."""
        if self.class_weight is None:
            return np.full(len(self.classes_), ONE)
        weights = np.array([float(self.class_weight[label]) for label in self.classes_])
        if not (np.isfinite(weights).all() and (weights > 0).all()):
            raise ValueError("class_weight: declare a finite weight above 0 for each class")
        return np.asarray(np.floor(weights / weights.max() * ONE), np.int64)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: noise makes scores poor on tiny data."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class WeightedClassifier(PrivateClassifier):
    """A private classifier whose records may have weights.

    Parameters
    ----------
    bounds : tuple, sequence of tuples or mapping, default=None
        Declared range of the numeric features without `bins`: ``(low, high)`` for all of them, one pair for each, or a
        mapping from name or position. A third member, ``"log"``, spaces bins evenly in the logarithm. A range has eight
        even bins; a linear one has five more at its lower end, where heavy tails begin.
    n_declared : float or None, default=None
        Number of records, if it is public. None: where the rule needs it, a noisy number is released for 2 % of
        epsilon.

    Attributes
    ----------
    max_depth_ : int
        Levels of splits, as given or by the rule.
    """

    categories: Any = None
    bins: Any = None
    bounds: Any = None
    classes: Sequence[object] | None = None
    class_weight: Mapping[object, float] | None = None
    n_declared: float | None = None
    max_weight: float | None = None
    missing: str = "wp"

    def fit(  # type: ignore[override]
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> Self:
        """Grow the trees; the account is checked before the data is read.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, features)
            Declared categories, or numbers with declared bins. None, NaN and undeclared categories are missing. X may
            have no rows.
        y : array-like of shape (n,)
            Labels; rows whose label is not a declared class are left out.
        sample_weight : array-like of shape (n,) or None, default=None
            Weights from 0 to `max_weight`, which must be declared. Larger weights are clipped; negative ones, and cells
            that are not numbers, count as 0. None: all weights are 1.

        Returns
        -------
        self

        Raises
        ------
        BudgetExceeded
            If the account does not cover epsilon; nothing is booked and no data is read.
        ValueError
            If a parameter is out of its range, or X, y and weights are not as they were declared.
        """
        return self._fit(X, y, sample_weight)
