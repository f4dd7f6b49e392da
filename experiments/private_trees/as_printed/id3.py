"""ID3 on incomplete data with the printed accounting, and why it is wrong; for comparison only.

As printed: the gain of a feature is taken over its complete part and multiplied by the share of the records that are
complete in it. Laplace: each count of (category, class) has noise of scale d a / B, but *the counts of missing values
are used without noise*. Exponential mechanism: B / (d + 1) for each choice, with the sensitivity log2(n + 1) + 1 / ln
2 taken from the *true number of records*.

True privacy loss (add or remove one record). *Laplace*: infinite. Take two features, both missing in all records: every
gain is exactly 0, and the first feature is always chosen. Add one record that has the second feature: the feature's
share is above 0, so with noise its gain is positive with positive probability, and then it is chosen. An impossible
event becomes possible, and no epsilon bounds that. ``tests/unit/experiments/private_trees/as_printed/test_id3.py``
shows it.

*Selection*: a little more than the claim. With S_n = log2(n + 1) + 1 / ln 2, n the records and c the classes, a choice
reads u / S_n, where n changes, too. An added record moves the gains of a level by at most S_(n + 1), up or down (in all
its nodes together: see `utilities`). The change of the divisor S_n moves gains of at most n log2 c in all by n log2 c
(1 / S_n - 1 / S_(n + 1)) more. This term is largest at n = 2, 0.0797 log2 c; half of it (the mechanisms' factor 2, as
gains are not monotone) is a share of 0.04 log2 c. The booked loss of choices grows by that share (`SLIDE`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedlearn.privacy import Noise, laplace
from fedlearn.private_trees.classes.class_counting import CodedRecords, Growth, count_leaves, count_open
from fedlearn.private_trees.classes.classifier import PrivateClassifier
from fedlearn.private_trees.classes.growing import (
    MECHANISMS,
    SELECTIONS,
    choose_labels,
    count_labels,
    smooth_downwards,
    table_of,
)
from fedlearn.private_trees.classes.shares import Line, even_shares, lines_of_choices, lines_of_counts
from fedlearn.private_trees.classes.utilities import FloatArray, reach_of_gain, utility
from fedlearn.private_trees.described import described
from fedlearn.private_trees.node_table import NodeTable
from fedlearn.private_trees.parameters import Rule, at_least, one_of

REASON = "NOT PRIVATE: printed ID3 uses counts of missing values without noise; no epsilon covers that"
SLIDE = 0.04  # extra share of a choice's cost, times log2 of the classes, as its sensitivity is read from the data


@described
@dataclass(kw_only=True, eq=False, repr=False)
class PrintedID3(PrivateClassifier):
    """ID3 on incomplete data with the printed accounting. *Not private for its epsilon*: for comparison only.

    ``privacy_spent_`` has the true privacy loss. With Laplace counts it is infinite, so a finite account refuses the
    fit; with private choices it is up to 4 % above the claim, for two classes.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss that the paper claims for a fit, in nats; above 0. ``math.inf``: no noise.
    max_depth : int, default=2
        Levels of splits, 0 or more; at most the number of features.
    mechanism : {"permute_and_flip", "exponential", "laplace"}, default="permute_and_flip"
        Mechanism of splits and labels; ``"laplace"``: noisy counts.

    Attributes
    ----------
    table_ : NodeTable
        The tree; values are shares of the classes. All of it may be published.

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
    >>> tree = PrintedID3(epsilon=1.0, **declared, noise="seeded", random_state=0).fit(X, y)
    >>> round(tree.privacy_spent_.epsilon, 3)
    1.027
    >>> tree.predict([["red", "m"], ["green", None]])
    array(['stop', 'go'], dtype='<U4')
    """

    max_depth: int = 2
    mechanism: str = "permute_and_flip"
    categories: Any = None
    bins: Any = None
    classes: Sequence[object] | None = None
    class_weight: Mapping[object, float] | None = None
    missing: str = "wp"

    ranges: ClassVar[dict[str, Rule]] = {
        **PrivateClassifier.ranges,
        "mechanism": one_of(*MECHANISMS),
        "max_depth": at_least(0),
    }

    def _num_parts(self) -> int:
        return 1

    def _reasons_against(self) -> list[str]:
        return [*super()._reasons_against(), *([REASON] if self.mechanism == "laplace" else [])]

    def _costs(self, reasons: Sequence[str]) -> float:
        return super()._costs(reasons) * (1 if reasons else self._dearer())

    def _dearer(self) -> float:
        """Return the factor by which a choice costs more than the paper books."""
        classes = self.classes_ if self.classes is None else self.classes
        return 1 + SLIDE * math.log2(max(len({*classes}), 2))

    def _lines(self, num_features: int) -> list[Line]:
        depth = min(self.max_depth, num_features)
        if self.mechanism == "laplace":
            return lines_of_counts(depth, self.epsilon)
        *choices, label = lines_of_choices(even_shares(depth), self.epsilon)
        return [*((what, self._dearer() * epsilon, level) for what, epsilon, level in choices), label]

    def _grow(self, records: CodedRecords, noise: Noise, rng: np.random.Generator) -> NodeTable:
        depth = min(self.max_depth, len(records.sizes))
        growth, value = grow_as_printed(
            records, depth=depth, epsilon=self.epsilon, mechanism=self.mechanism, noise=noise
        )
        return table_of(growth, value)


def grow_as_printed(
    records: CodedRecords, *, depth: int, epsilon: float, mechanism: str, noise: Noise
) -> tuple[Growth, FloatArray]:
    """Return the tree and (nodes, classes) its shares of the classes."""
    growth = Growth(1, records.sizes)
    share = epsilon / (depth + 1)
    for _ in range(depth):
        gains = _noisy_gains(growth, records, epsilon / (depth * len(records.sizes)), mechanism, noise)
        gains[growth.open_used] = -np.inf
        if mechanism == "laplace":
            choice = gains.argmax(axis=1)
        else:
            gains /= reach_of_gain(max(len(records.labels), 1))  # read from the data: see `SLIDE`
            choice = SELECTIONS[mechanism](gains, sensitivity=1.0, epsilon=share, noise=noise)
        growth.split(choice)
    if mechanism == "laplace":
        counts = count_labels(growth, records, epsilon=share, noise=noise)
        return growth, smooth_downwards(growth, counts, strength=math.sqrt(2) / share)
    _, exact = count_leaves(growth, records)
    return growth, choose_labels(growth, exact, epsilon=share, mechanism=mechanism, noise=noise)


def _noisy_gains(growth: Growth, records: CodedRecords, epsilon: float, mechanism: str, noise: Noise) -> FloatArray:
    """Return (nodes, features) the gain over the complete part, times the number of records that are complete."""
    counts = count_open(growth, records, spread=False)
    complete = np.add.reduceat(counts.sum(axis=2), records.offsets, axis=1)  # exact: the error of the printed algorithm
    if mechanism == "laplace":
        counts = np.maximum(laplace(counts, sensitivity=1.0, epsilon=epsilon, noise=noise), 0)
    by_class = np.add.reduceat(counts, records.offsets, axis=1)  # (nodes, features, classes)
    before = -utility("information_gain", by_class, np.arange(len(records.sizes)))
    gains = before + utility("information_gain", counts, records.offsets)
    size = by_class.sum(axis=2)
    return np.where(size > 0, gains / np.maximum(size, 1e-9), 0.0) * complete
