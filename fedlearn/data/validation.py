"""Validation rows: a share of the test rows, by which rounds and settings are chosen; the others are measured once.

A data set may have validation rows of its own (`Dataset.validation`), which are then taken whole. Others come from the
test rows, so that training keeps its bytes. The draw has a seed of its own: all runs of a sweep have the same
validation rows, so that no row that chooses is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import SettingError
from fedlearn.core.seeding import rng_for
from fedlearn.data.data_spec import Examples

SHARE = 0.5  # by default: choosing and reporting need rows alike
OWN_ROWS = "{} holds validation rows, for runs that have some (data.validation_share)"
FEWEST = 2  # test rows of which one can choose and one be reported


@dataclass(frozen=True, slots=True)
class SomeRows:
    """Some examples, of which no copy is made; `places` is None for all of them."""

    examples: Examples
    places: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        """Return how many examples these are."""
        return len(self.examples if self.places is None else self.places)

    @property
    def targets(self) -> NDArray[Any]:
        """The targets of the examples."""
        return self.examples.targets if self.places is None else self.examples.targets[self.places]

    def at(self, start: int, stop: int) -> Examples:
        """Return the examples from `start` to `stop`."""
        return self.examples.at(slice(start, stop) if self.places is None else self.places[start:stop])


def measured_rows(test: Examples, share: float, *, own: int = 0, once: bool = False) -> SomeRows:
    """Return the test rows that rounds measure; with `once`, those that are measured after the last round.

    Parameters
    ----------
    share
        The share of the validation rows; 0: rounds measure all test rows.
    own
        How many of the rows, from the first, are the data set's own validation rows: then none are drawn.
    """
    if own:
        return SomeRows(test, np.arange(own) if share and not once else np.arange(own, len(test)))
    return SomeRows(test, _drawn(len(test), share)[int(once)] if share else None)


@lru_cache(maxsize=4)
def _drawn(count: int, share: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the places of the validation rows and of the other test rows, each in order.

    >>> [len(places) for places in _drawn(5, 0.5)], [len(places) for places in _drawn(5, 0.99)]
    ([2, 3], [4, 1])
    """
    if count < FEWEST:
        why = f"the test set has {count} rows, which cannot both choose and be reported: give 0, or more test rows"
        raise SettingError("data.validation_share", share, why)
    order = rng_for(0, purpose="validation rows").permutation(count)
    size = min(max(1, round(share * count)), count - 1)
    return np.sort(order[:size]), np.sort(order[size:])
