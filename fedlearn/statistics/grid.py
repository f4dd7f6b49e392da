"""Times on a declared grid, and the two columns that every analysis of survival has: time and event."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import Examples
from fedlearn.statistics.design import Declared, FloatArray

MOST_TIMES = 100_000


class TimeGrid:
    """The grid of times from the declared lower bound, in steps; and which records have an event when.

    A time between two points counts as the later one: the answer is that of one table whose times are rounded up.

    Parameters
    ----------
    declared
        The columns of the table.
    duration, event
        Column of times; column of events: two categories, of which the second is the event, or bounds 0 and 1.
    step, most
        Distance of two points; most points.
    """

    def __init__(self, declared: Declared, *, duration: str, event: str, step: float, most: int = MOST_TIMES) -> None:
        self.declared, self.step = declared, step
        if not event:
            why = "survival needs a column that says whether the event happened: name it"
            raise SettingError("model.options.event", event, why)
        self.duration = declared.check("duration", duration, of="numbers")
        self.event = declared.check("event", event)
        if declared.bounds(event) != (0.0, 1.0):
            raise SettingError("model.options.event", event, "it needs two categories, or bounds 0 and 1")
        self.low, high = declared.bounds(duration)
        self.size = int(np.ceil((high - self.low) / step - 1e-9)) + 1
        if self.size > most:
            why = f"the bounds of {duration!r} make {self.size:,} times, and {most:,} are allowed: use longer steps"
            raise SettingError("model.options.step", step, why)

    @property
    def times(self) -> FloatArray:
        """(size,) the points of the grid."""
        return np.asarray(self.low + self.step * np.arange(self.size))

    def cells(self, examples: Examples) -> NDArray[np.int64]:
        """Return (rows,) the place of each record's time on the grid: the first point that is not before it."""
        values = self.declared.values(self.duration, examples)
        places = np.ceil((values - self.low) / self.step - 1e-9)
        return np.clip(places, 0, self.size - 1).astype(np.int64)

    def events(self, examples: Examples) -> NDArray[np.bool_]:
        """Return (rows,) whether the event happened to each record."""
        return np.asarray(self.declared.values(self.event, examples) > 0.5)
