"""Intervals of means over few seeds, by Student's t."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats


class Interval(NamedTuple):
    """A mean, and how far its 95 % interval reaches to each side; None of a single value."""

    mean: float
    half: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """Return the interval of the mean of some values, at least one: t(0.975, n - 1) * sd / sqrt(n) to each side.

        >>> [round(number, 4) for number in Interval.of([1.0, 2.0, 3.0])], Interval.of([5.0])
        ([2.0, 2.4841], Interval(mean=5.0, half=None))
        """
        found = np.asarray(values, np.float64)
        if len(found) < 2:
            return cls(float(found.mean()), None)
        half = stats.t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found))
        return cls(float(found.mean()), float(half))

    def text(self, *, places: int = 4, signed: bool = False) -> str:
        """Return the mean, and the interval in brackets where there is one.

        >>> Interval(0.5, 0.25).text(places=2), Interval(0.5, None).text(signed=True)
        ('0.50 [0.25, 0.75]', '+0.5000')
        """
        form = f"{'+' if signed else ''}.{places}f"
        if self.half is None:
            return f"{self.mean:{form}}"
        return f"{self.mean:{form}} [{self.mean - self.half:{form}}, {self.mean + self.half:{form}}]"
