"""ID3 on incomplete data with the printed accounting. It is *not private*; here to be compared with and shown wrong.

As printed: the gain of a feature is taken over its complete part and multiplied by the share of the records that are
complete in it. Laplace: each count of (category, class) has noise of scale d a / B, but *the counts of missing values
are used without noise*. Exponential mechanism: B / (d + 1) for each choice, with the sensitivity log2(n + 1) + 1 / ln
2 taken from the
*true number of records*.

What is wrong with it. (1) Take two features, both missing in all records: every gain is exactly 0 and the first
feature is chosen, always. Add one record that has the second feature: its share is above 0 and so, with noise, is its
gain: it is chosen with positive probability. An event that was impossible becomes possible: no epsilon bounds that.
(2) A sensitivity read from the data is itself unprotected; declared, it would do: the utility below changes by at
most that much, though not monotonously. ``tests/unit/trees/test_classification_paper.py`` shows (1).
"""

from __future__ import annotations

import math

import numpy as np

from fedlearn.privacy import Noise, laplace
from fedlearn.trees.classes.counting import Growth, Records, count_leaves, count_open
from fedlearn.trees.classes.growing import SELECTIONS, choose_labels, count_labels, smooth_downwards
from fedlearn.trees.classes.utilities import FloatArray, sensitivity, utility

REASON = "NOT PRIVATE: mode='paper' uses counts of missing values, or of records, without noise; no epsilon covers that"


def grow_as_printed(
    records: Records, *, depth: int, epsilon: float, mechanism: str, noise: Noise
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
            reach = sensitivity("information_gain", max_records=max(len(records.labels), 1))
            choice = SELECTIONS[mechanism](gains, sensitivity=reach, epsilon=share, noise=noise)
        growth.split(choice)
    if mechanism == "laplace":
        counts = count_labels(growth, records, epsilon=share, noise=noise)
        return growth, smooth_downwards(growth, counts, strength=math.sqrt(2) / share)
    _, exact = count_leaves(growth, records)
    return growth, choose_labels(growth, exact, epsilon=share, mechanism=mechanism, noise=noise)


def _noisy_gains(growth: Growth, records: Records, epsilon: float, mechanism: str, noise: Noise) -> FloatArray:
    """Return (nodes, features) the gain over the complete part, times the number of records that are complete."""
    counts = count_open(growth, records, spread=False)
    complete = np.add.reduceat(counts.sum(axis=2), records.offsets, axis=1)  # exact: this is what is wrong
    if mechanism == "laplace":
        counts = np.maximum(laplace(counts, sensitivity=1.0, epsilon=epsilon, noise=noise), 0)
    by_class = np.add.reduceat(counts, records.offsets, axis=1)  # (nodes, features, classes)
    before = -utility("information_gain", by_class, np.arange(len(records.sizes)))
    gains = before + utility("information_gain", counts, records.offsets)
    size = by_class.sum(axis=2)
    return np.where(size > 0, gains / np.maximum(size, 1e-9), 0.0) * complete
