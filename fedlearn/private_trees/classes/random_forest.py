"""Random decision trees with private leaves; their structure is drawn without data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedlearn.privacy import Noise
from fedlearn.private_trees.classes import growing
from fedlearn.private_trees.classes.class_counting import CodedRecords, count_leaves
from fedlearn.private_trees.classes.classifier import WeightedClassifier
from fedlearn.private_trees.classes.rule import TREES, depth_for
from fedlearn.private_trees.classes.shares import (
    SAMPLINGS,
    Line,
    spread_over_trees,
)
from fedlearn.private_trees.described import described
from fedlearn.private_trees.node_table import NodeTable
from fedlearn.private_trees.parameters import Rule, at_least, none_or, one_of

SHAPE_OF_LABELS = 10, 3  # trees and depth of random trees with labels, if the parameters are None


@described
@dataclass(kw_only=True, eq=False, repr=False)
class DPRandomForestClassifier(WeightedClassifier):
    """Random decision trees: structure drawn without data, so that the whole budget goes to the leaves.

    Pure epsilon, add or remove one record.

    Parameters
    ----------
    n_estimators : int or None, default=None
        Number of trees, 1 or more. None: 3, or 10 for labels.
    sampling : {"disjoint", "same"}, default="disjoint"
        ``"disjoint"``: each record draws its tree independently, and every tree has the whole epsilon (parallel
        composition). ``"same"``: every tree sees all records, with epsilon / n_estimators (sequential composition).
    max_depth : int or None, default=None
        Levels of splits, 0 or more; at most the number of features. None: by the rule in `rule`, from epsilon, records
        and columns; 3 for labels.
    mechanism : {"laplace", "exponential", "permute_and_flip"}, default="laplace"
        ``"laplace"``: smoothed noisy class counts at the leaves; the trees' shares of the classes are averaged. The
        others: one privately chosen label for each leaf; the trees vote.

    Attributes
    ----------
    table_ : NodeTable
        The trees; values are shares of the classes. All of it may be published.
    n_estimators_ : int
        Number of trees, as given or by the rule.

    References
    ----------
    .. [1] Fan, Wang, Yu, Ma 2003: random decision trees.
    .. [2] Jagannathan, Pillaipakkamnatt, Wright 2009: random decision trees with private leaves.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.choice(["red", "green"], 2000), rng.choice(["s", "m", "l"], 2000)])
    >>> y = np.where(X[:, 0] == "red", "stop", "go")
    >>> declared = {"categories": [["red", "green"], ["s", "m", "l"]], "classes": ["go", "stop"]}
    >>> forest = DPRandomForestClassifier(epsilon=1.0, **declared, noise="seeded", random_state=0).fit(X, y)
    >>> print(forest.privacy_spent_)
    epsilon = 1 (add or remove one record; unit: record; not secure: protects nobody)
    >>> forest.predict([["red", "m"], ["green", None]])
    array(['stop', 'go'], dtype='<U4')
    """

    n_estimators: int | None = None
    sampling: str = "disjoint"
    max_depth: int | None = None
    mechanism: str = "laplace"

    ranges: ClassVar[dict[str, Rule]] = {
        **WeightedClassifier.ranges,
        "mechanism": one_of(*growing.MECHANISMS),
        "sampling": one_of(*SAMPLINGS),
        "n_estimators": none_or(at_least(1)),
        "max_depth": none_or(at_least(0)),
        "n_declared": none_or(at_least(0)),
    }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        trees, depth = (TREES, 0) if self.mechanism == "laplace" else SHAPE_OF_LABELS
        self.n_estimators_ = trees if self.n_estimators is None else self.n_estimators
        self.max_depth_ = depth if self.max_depth is None else self.max_depth  # the rule may replace it

    def _has_rule(self) -> bool:
        return self.max_depth is None and self.mechanism == "laplace"

    def _follow_rule(self, records: float, columns: int) -> None:
        self.max_depth_ = depth_for(self._epsilon_, records, columns)

    def _num_parts(self) -> int:
        return int(self.n_estimators_) if self.sampling == "disjoint" else 1

    def _lines(self, num_features: int) -> list[Line]:
        what = "class counts of the leaves" if self.mechanism == "laplace" else "labels of the leaves"
        return spread_over_trees([(what, self._epsilon_, None)], num_trees=self.n_estimators_, sampling=self.sampling)

    def _grow(self, records: CodedRecords, noise: Noise, rng: np.random.Generator) -> NodeTable:
        allowed = np.ones((self.n_estimators_, len(records.sizes)), np.bool_)
        growth = growing.grow_at_random(records, allowed, depth=self.max_depth_, rng=rng)
        epsilon = self._epsilon_ if self.sampling == "disjoint" else self._epsilon_ / self.n_estimators_
        if self.mechanism == "laplace":
            counts = growing.count_labels(growth, records, epsilon=epsilon, noise=noise)
            value = growing.smooth_downwards(growth, counts, strength=math.sqrt(2) / epsilon)
        else:
            _, counts = count_leaves(growth, records)
            value = growing.choose_labels(growth, counts, epsilon=epsilon, mechanism=self.mechanism, noise=noise)
        return growing.table_of(growth, value)
