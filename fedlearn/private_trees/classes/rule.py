"""Depth of a tree of private choices, and number of trees: a rule of epsilon, records and columns.

A choice is good if the node's utilities differ by some multiple of 1 / epsilon, and a leaf's counts are good if it has
more records than that. So epsilon times the number of records decides. More columns allow more useful splits. The
number of records must be public: declared, or released before. The rule was found on training rows alone, by ``python
-m experiments.private_trees.classifier_rule``.
"""

from __future__ import annotations

import math

NUMBER_SHARE = 0.02
"""Share of epsilon for the release of the number of records, if the rule needs it and none is declared."""

ENOUGH = 8.0  # a larger epsilon makes no deeper tree: the records' own randomness remains
STEP, DEEPEST = 2.3, 6
"""Doublings of epsilon * records * columns for each level; most levels, and never more than half the columns."""

FOREST_OFFSET, TREE_OFFSET = 8.8, 9.4
"""Doublings before the first level. A tree that stands alone, with even shares of its budget, needs more."""

FOREST, TREES = 500.0, 3
"""Least epsilon * records of a forest with more than one tree, and its number of trees."""


def worth(epsilon: float, records: float) -> float:
    """Return epsilon, capped at ENOUGH, times records; at least 1."""
    return max(min(epsilon, ENOUGH) * records, 1.0)


def depth_for(epsilon: float, records: float, columns: int, *, offset: float = FOREST_OFFSET) -> int:
    """Return the number of levels of splits.

    >>> [depth_for(1.0, records, 14) for records in (100, 1000, 4000, 20_000, 100_000)]
    [1, 2, 3, 4, 5]
    >>> depth_for(1.0, 100_000, 6)
    3
    """
    doublings = math.log2(worth(epsilon, records) * max(columns, 1))
    return max(min(round((doublings - offset) / STEP), DEEPEST, columns // 2), 1)


def trees_for(epsilon: float, records: float) -> int:
    """Return the number of trees.

    >>> trees_for(0.1, 1000), trees_for(1.0, 1000)
    (1, 3)
    """
    return TREES if worth(epsilon, records) >= FOREST else 1
