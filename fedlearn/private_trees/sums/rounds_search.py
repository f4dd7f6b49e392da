"""Number of rounds of a federated model of sums, by public numbers alone; this folder's README has the search."""

from __future__ import annotations

import math

FEWEST_ROUNDS, MOST_ROUNDS = 12, 100
ENOUGH, FALL = 0.1, 0.6  # epsilon over sqrt(nodes) below which the fewest rounds fall, and the exponent of the fall
LITTLE = 1000.0  # epsilon times declared records over sqrt(nodes), below which a release of all columns says little
ALONE = 100.0  # epsilon times declared records over sqrt(nodes), below which only the start is worth its budget


def rounds_for(epsilon: float, nodes: int, declared: int | None = None) -> int:
    """Return how many rounds a budget is worth, if each of `nodes` nodes adds noise of its own.

    The noise of m nodes is the noise of one node at epsilon / sqrt(m).

    Parameters
    ----------
    declared
        Largest number of records of all nodes together; if noise hides all but the start, there is one round. None:
        unknown.

    >>> [rounds_for(1.0, 1), rounds_for(1.0, 25), rounds_for(8.0, 1), rounds_for(0.1, 25), rounds_for(0.1, 25, 1000)]
    [15, 12, 38, 5, 1]
    """
    budget = epsilon / math.sqrt(nodes)
    if declared is not None and budget * declared < ALONE:
        return 1
    fewest = max(round(FEWEST_ROUNDS * min(budget / ENOUGH, 1.0) ** FALL), 2)
    return int(min(max(round(15 * budget**0.45), fewest), MOST_ROUNDS))


def is_little(epsilon: float, nodes: int, declared: int | None = None) -> bool:
    """Return whether the noise of so many nodes hides most of a single release of all columns.

    `declared` is the largest number of records of all nodes together; None: unknown.
    """
    budget = epsilon / math.sqrt(nodes)
    return budget < ENOUGH if declared is None else budget * declared < LITTLE
