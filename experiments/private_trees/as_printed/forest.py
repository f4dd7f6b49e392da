"""The random decision forest with the printed accounting and its true privacy loss; for comparison only.

As printed: n random trees, all on the same records; each count of a class in a leaf is a query of budget B / (c n), c
the number of classes. Laplace: noise of that scale on every count; trees vote with their counts. Exponential mechanism:
leaves publish nothing; for each predicted row, each tree draws the label of the row's leaf by the mechanism, with B /
(c n), from the exact counts.

True privacy loss (add or remove one record). *Laplace*: a record is in one leaf of a tree and of one class (in pieces:
of weight 1 in all), so all counts of a tree cost B / (c n) together, and n trees cost B / c: the paper pays c times for
disjoint counts. So this is private, and noisier than it need be. *Exponential*: a record moves one of the counts that a
draw reads by at most 1, so a draw loses at most half of its B / (c n), as printed with exp(epsilon u / 2), a row B / (2
c) over all trees. It is paid *for each predicted row*: 2 c rows spend B, and the model can never be published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy import Noise, exponential, secure_noise, seeded_noise
from fedlearn.private_trees.classes import growing
from fedlearn.private_trees.classes.class_counting import CodedRecords, count_leaves
from fedlearn.private_trees.classes.classifier import PrivateClassifier
from fedlearn.private_trees.classes.shares import Line
from fedlearn.private_trees.classes.utilities import FloatArray
from fedlearn.private_trees.described import described
from fedlearn.private_trees.node_table import NodeTable
from fedlearn.private_trees.parameters import Rule, at_least, one_of
from fedlearn.private_trees.predicting import leaf_of_rows, predict

REASON = "NOT PRIVATE: the printed forest asks its exact counts again for every row that it predicts, without end"
LEAST = 1e-9  # added to the records of each class in each leaf, so that leaves without positive counts vote evenly


@described
@dataclass(kw_only=True, eq=False, repr=False)
class PrintedRandomForest(PrivateClassifier):
    """Random decision trees with the printed accounting. *Not private for their epsilon*: for comparison only.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss that the paper claims for a fit, in nats; above 0. ``math.inf``: no noise.
    n_estimators : int, default=10
        Number of trees, 1 or more, all on the same records.
    max_depth : int, default=3
        Levels of splits, 0 or more; at most the number of features.
    mechanism : {"exponential", "laplace"}, default="exponential"
        ``"exponential"``: a label is drawn for each predicted row; ``privacy_spent_`` has an infinite epsilon.
        ``"laplace"``: noisy counts, whose true privacy loss is epsilon over the number of classes.

    Attributes
    ----------
    table_ : NodeTable
        The trees; values are noisy counts of the classes, or even shares if labels are drawn.

    References
    ----------
    .. [1] Vu, Nguyen: private decision trees on incomplete data.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.choice(["red", "green"], 2000), rng.choice(["s", "m", "l"], 2000)])
    >>> y = np.where(X[:, 0] == "red", "stop", "go")
    >>> declared = {"categories": [["red", "green"], ["s", "m", "l"]], "classes": ["go", "stop"]}
    >>> forest = PrintedRandomForest(epsilon=1.0, **declared, noise="seeded", random_state=0).fit(X, y)
    >>> forest.privacy_spent_.epsilon
    inf
    >>> forest.predict([["red", "m"], ["green", None]])
    array(['stop', 'go'], dtype='<U4')
    >>> forest.loss_of(2)
    0.5
    """

    n_estimators: int = 10
    max_depth: int = 3
    mechanism: str = "exponential"
    categories: Any = None
    bins: Any = None
    classes: Sequence[object] | None = None
    class_weight: Mapping[object, float] | None = None
    missing: str = "wp"

    ranges: ClassVar[dict[str, Rule]] = {
        **PrivateClassifier.ranges,
        "mechanism": one_of("exponential", "laplace"),
        "n_estimators": at_least(1),
        "max_depth": at_least(0),
    }

    def loss_of(self, rows: int) -> float:
        """Return the privacy loss of predictions for `rows` rows; with noisy counts the number does not matter.

        >>> PrintedRandomForest(epsilon=0.1, classes=["no", "yes"]).loss_of(3700)
        92.5
        """
        return self._counts_cost() * (1 if self.mechanism == "laplace" else rows / 2)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return (n, classes) the shares of the trees' votes; if labels are drawn, each call costs privacy.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, features)
            As in `fit`; a category that was not declared counts as missing.
        """
        if self.mechanism == "laplace":
            return super().predict_proba(X)
        coded = self._coded(X)
        noise = secure_noise() if self.noise == "secure" else seeded_noise(self._seed_)
        votes = np.zeros((len(coded), len(self.classes_)))
        for tree in range(self.n_estimators):
            votes += self._votes(tree, coded, noise)
        votes[votes.sum(axis=1) == 0] = 1.0
        return np.asarray(votes / votes.sum(axis=1, keepdims=True))

    def _votes(self, tree: int, coded: FloatArray, noise: Noise) -> FloatArray:
        """Return (rows, classes) with a 1 at the tree's vote, drawn from the exact counts of the row's leaf."""
        alone = replace(self.table_, root=self.table_.root[[tree]], weight=np.ones(1), value=self._counts_)
        leaf = leaf_of_rows(alone, coded)[:, 0]
        counts = predict(alone, coded) if self.missing == "wp" else self._counts_[leaf]
        label = exponential(counts, sensitivity=1.0, epsilon=self._epsilon_of_a_count(), noise=noise)
        votes = np.zeros(counts.shape)
        votes[np.arange(len(votes)), label] = 1.0 if self.missing == "wp" else leaf >= 0
        return votes

    def _num_parts(self) -> int:
        return 1

    def _reasons_against(self) -> list[str]:
        return [*super()._reasons_against(), *([REASON] if self.mechanism == "exponential" else [])]

    def _costs(self, reasons: Sequence[str]) -> float:
        return super()._costs(reasons) if reasons else self._counts_cost()

    def _counts_cost(self) -> float:
        """Return the privacy loss of the counts of all trees, with Laplace noise of the printed scale."""
        return self._epsilon_of_a_count() * self.n_estimators

    def _epsilon_of_a_count(self) -> float:
        classes = self.classes_ if self.classes is None else self.classes
        return float(self.epsilon) / (len({*classes}) * self.n_estimators)

    def _lines(self, num_features: int) -> list[Line]:
        if self.mechanism == "exponential":
            return []
        return [(f"class counts of the leaves, sum over {self.n_estimators} trees", self._counts_cost(), None)]

    def _grow(self, records: CodedRecords, noise: Noise, rng: np.random.Generator) -> NodeTable:
        allowed = np.ones((self.n_estimators, len(records.sizes)), np.bool_)
        growth = growing.grow_at_random(records, allowed, depth=self.max_depth, rng=rng)
        if self.mechanism == "laplace":
            counts = growing.count_labels(growth, records, epsilon=self._epsilon_of_a_count(), noise=noise)
            return growing.table_of(growth, np.maximum(counts, 0) + LEAST)
        leaves, counts = count_leaves(growth, records)
        self._counts_: NDArray[np.float64] = np.zeros((growth.level_starts()[-1], records.num_classes))
        self._counts_[leaves] = counts
        self._seed_ = int(rng.integers(2**31))
        return growing.table_of(growth, np.full(self._counts_.shape, 1 / records.num_classes))
