"""Choose the range of an axis and the places of its ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

ROUND_STEPS = (1, 2, 2.5, 5, 10, 100, 1000)  # the last two for axes of whole numbers
NO_SPAN = 1e-12
SMALLEST = 1e-9  # below it, ticks of twelve digits would all be zero


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: a range of numbers that is mapped to [0, 1], and its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    def place(self, value: float) -> float:
        """Return the place of a value, 0 at the low end and 1 at the high end."""
        if self.high == self.low:  # the two ends are the same float
            return 0.5
        if self.log:
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)


def axis_of(
    values: Iterable[float], *, count: int = 5, from_zero: bool = False, tight: bool = False, whole: bool = False
) -> Axis:
    """Return an axis that holds the values.

    Parameters
    ----------
    count
        The wanted number of ticks, about.
    tight
        Whether the axis ends at the outermost values, and not at a tick beyond them.
    whole
        Whether ticks are whole numbers only, as for counts.

    >>> axis_of([0.1, 0.74]).ticks
    (0.0, 0.2, 0.4, 0.6, 0.8)
    """
    known = [*values, *([0.0] if from_zero else [])] or [0.0, 1.0]
    low, high = min(known), max(known)
    if high - low <= NO_SPAN * max(abs(high), 1.0):
        margin = abs(high) * 0.1 if abs(high) > SMALLEST else 0.5
        low, high = (low if from_zero else low - margin), high + margin
    step = _step((high - low) / (count - 1), whole=whole)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(round(number * step, 12) for number in range(first, last + 1))
    if tight:
        return Axis(low, high, tuple(tick for tick in ticks if low <= tick <= high))
    return Axis(ticks[0], ticks[-1], ticks)


def log_axis_of(values: Iterable[float]) -> Axis:
    """Return a logarithmic axis that holds the values; all must be above zero."""
    known = list(values)
    low, high = min(known) / 1.5, max(known) * 1.5
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    inside = tuple(tick for tick in ticks if low <= tick <= high)
    tens = tuple(tick for tick in inside if math.log10(tick).is_integer())
    return Axis(low, high, tens if len(inside) > 7 else inside, log=True)


def _step(rough: float, *, whole: bool) -> float:
    """Return the next larger round distance between ticks."""
    power = 10.0 ** math.floor(math.log10(rough))
    steps = (digit * power for digit in ROUND_STEPS)
    return next(step for step in steps if step >= rough * (1 - 1e-9) and (step.is_integer() or not whole))
