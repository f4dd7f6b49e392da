"""Private classification trees and random decision forests over categorical features with missing values.

SuLQ-ID3 by Laplace counts or by one private selection per node; random decision trees with private leaves; weight
partition (WP) for missing values, in training and in prediction. Proofs: counts and composition in `counting`,
utilities in `utilities`, budgets in `shares`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedlearn.privacy import Noise
from fedlearn.private_trees.classes import growing
from fedlearn.private_trees.classes.class_counting import CodedRecords, Growth
from fedlearn.private_trees.classes.classifier import WeightedClassifier
from fedlearn.private_trees.classes.rule import TREE_OFFSET, depth_for
from fedlearn.private_trees.classes.shares import (
    Line,
    even_shares,
    lines_of_choices,
    lines_of_counts,
)
from fedlearn.private_trees.classes.utilities import CRITERIA, FloatArray, sensitivity
from fedlearn.private_trees.described import described
from fedlearn.private_trees.node_table import NodeTable
from fedlearn.private_trees.parameters import Rule, at_least, none_or, one_of

DEPTH_OF_COUNTS = 2  # of a tree grown from noisy counts, if `max_depth` is None


@described
@dataclass(kw_only=True, eq=False, repr=False)
class DPClassificationTree(WeightedClassifier):
    """An ID3 tree: a node has a child for each category of its feature, and no path uses a feature twice.

    Pure epsilon, add or remove one record. Proofs: counts and composition in `counting`, utilities in `utilities`.

    Parameters
    ----------
    max_depth : int or None, default=None
        Levels of splits, 0 or more; at most the number of features. None: by the rule in `rule`, from epsilon, records
        and columns; with ``"laplace"`` 2.
    mechanism : {"permute_and_flip", "exponential", "laplace"}, default="permute_and_flip"
        ``"laplace"``: noisy counts of every unused feature of the path, from which the tree follows. The others: one
        private choice per node and one release per leaf, epsilon / (depth + 1) each along a path.
    criterion : {"max", "gini", "information_gain"}, default="max"
        Criterion of the splits: records that the branches' majorities get right, Gini impurity, or entropy.
    leaf : {"counts", "label"}, default="counts"
        Release of a leaf under private selection, at the same price: smoothed noisy counts of all classes, from which
        probabilities follow; or its likeliest class alone.
    max_records : int or None, default=None
        Declared largest number of records, 1 or more; required by ``"information_gain"`` under private choices, whose
        sensitivity grows with it. More records raise no error, which would reveal one: utilities are scaled down so
        that the proof holds (`utilities`), and choices are worse.

    Attributes
    ----------
    table_ : NodeTable
        The tree; values are shares of the classes. All of it may be published.

    References
    ----------
    .. [1] Blum, Dwork, McSherry, Nissim 2005: SuLQ, ID3 from noisy counts.
    .. [2] Friedman, Schuster 2010, doi:10.1145/1835804.1835868: private selection, and the utilities' sensitivities.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.choice(["red", "green"], 2000), rng.choice(["s", "m", "l"], 2000)])
    >>> y = np.where(X[:, 0] == "red", "stop", "go")
    >>> declared = {"categories": [["red", "green"], ["s", "m", "l"]], "classes": ["go", "stop"]}
    >>> tree = DPClassificationTree(epsilon=1.0, **declared, noise="seeded", random_state=0).fit(X, y)
    >>> print(tree.privacy_spent_)
    epsilon = 1 (add or remove one record; unit: record; not secure: protects nobody)
    >>> tree.predict([["red", "m"], ["green", None]])
    array(['stop', 'go'], dtype='<U4')
    """

    max_depth: int | None = None
    mechanism: str = "permute_and_flip"
    criterion: str = "max"
    leaf: str = "counts"
    max_records: int | None = None

    ranges: ClassVar[dict[str, Rule]] = {
        **WeightedClassifier.ranges,
        "mechanism": one_of(*growing.MECHANISMS),
        "criterion": one_of(*CRITERIA),
        "max_depth": none_or(at_least(0)),
        "n_declared": none_or(at_least(0)),
        "leaf": one_of(*growing.LEAVES),
        "max_records": none_or(at_least(1)),
    }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.mechanism != "laplace":
            sensitivity(self.criterion, max_records=self.max_records)
            if self.criterion == "information_gain" and self.max_weight is not None:
                raise ValueError("max_weight: criterion 'information_gain' takes no weights; 'max' and 'gini' do")
        self.max_depth_ = DEPTH_OF_COUNTS if self.max_depth is None else self.max_depth  # the rule may replace it

    def _has_rule(self) -> bool:
        return self.max_depth is None and self.mechanism != "laplace"

    def _follow_rule(self, records: float, columns: int) -> None:
        self.max_depth_ = depth_for(self._epsilon_, records, columns, offset=TREE_OFFSET)

    def _num_parts(self) -> int:
        return 1

    def _lines(self, num_features: int) -> list[Line]:
        depth = min(self.max_depth_, num_features)
        if self.mechanism == "laplace":
            return lines_of_counts(depth, self._epsilon_)
        return lines_of_choices(even_shares(depth), self._epsilon_, leaf=self.leaf)

    def _grow(self, records: CodedRecords, noise: Noise, rng: np.random.Generator) -> NodeTable:
        depth = min(self.max_depth_, len(records.sizes))
        if self.mechanism == "laplace":
            growth, value = self._grow_by_counts(records, depth, noise)
        else:
            rule = growing.SelectionRule(self.mechanism, self.criterion, 0.0, self.max_records)
            growth, left, counts = growing.grow_by_selection(
                records,
                np.ones((1, len(records.sizes)), np.bool_),
                epsilon=self._epsilon_,
                shares=even_shares(depth),
                rule=rule,
                noise=noise,
            )
            if self.leaf == "counts":
                value = growing.counts_of_leaves(growth, counts, epsilon=left, noise=noise)
            else:
                value = growing.choose_labels(growth, counts, epsilon=left, mechanism=self.mechanism, noise=noise)
        return growing.table_of(growth, value)

    def _grow_by_counts(self, records: CodedRecords, depth: int, noise: Noise) -> tuple[Growth, FloatArray]:
        if not depth:
            growth = Growth(1, records.sizes)
            counts = growing.count_labels(growth, records, epsilon=self._epsilon_, noise=noise)
            return growth, growing.smooth_downwards(growth, counts, strength=1 / self._epsilon_)
        growth, counts = growing.grow_by_counts(
            records, depth=depth, epsilon=self._epsilon_, criterion=self.criterion, noise=noise
        )
        scale = depth * (len(records.sizes) - depth + 1) / self._epsilon_  # scale of the noise on the last level
        return growth, growing.smooth_downwards(growth, counts, strength=math.sqrt(2) * scale)
