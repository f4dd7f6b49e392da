"""Sources of noise with one mistake each, which the exact audit of runs must find in the noise that it records."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy.noise import Noise

Row = NDArray[np.int64]
Bend = Callable[[Row, Row], Row]


def _one_number(row: Row, before: Row) -> Row:
    return np.full_like(row, row[0])


def _in_pairs(row: Row, before: Row) -> Row:
    return np.resize(np.repeat(row[::2], 2), row.shape)


def _halves(row: Row, before: Row) -> Row:
    return np.resize(row[: len(row) // 2], row.shape)


def _less_the_last(row: Row, before: Row) -> Row:
    taken: Row = np.rint((row - before) / math.sqrt(2)).astype(np.int64)
    return taken


def _reversed(row: Row, before: Row) -> Row:
    return before[::-1]


def _a_tenth_again(row: Row, before: Row) -> Row:
    return np.concatenate([before[: len(row) // 10], row[len(row) // 10 :]])


def _a_tenth_less(row: Row, before: Row) -> Row:
    less: Row = np.rint(0.9 * row).astype(np.int64)
    return less


def _one_without(row: Row, before: Row) -> Row:
    return np.concatenate([row[:-1], [0]])


def _last_signs(row: Row, before: Row) -> Row:
    return np.abs(row) * np.where(before < 0, -1, 1)


BENDS: Mapping[str, Bend] = {
    "one number for all entries": _one_number,
    "each number for two entries": _in_pairs,
    "noise of one half in the other": _halves,
    "the last noise taken away": _less_the_last,
    "the last noise in reverse": _reversed,
    "a tenth of the last noise again": _a_tenth_again,
    "a tenth less noise than is asked for": _a_tenth_less,
    "an entry without noise": _one_without,
    "signs of the last noise": _last_signs,
}
"""Mistake in words -> function (row of noise, the row before) that returns the row with the mistake."""


class Bent:
    """A source of noise that makes one mistake.

    Parameters
    ----------
    honest : Noise
        Source of sound noise.
    bend : callable
        Mistake, of `BENDS`.
    last : dict
        Sound row before this one, by the caller's name of it.
    name : object
        Name of the row.
    """

    def __init__(self, honest: Noise, bend: Bend, last: dict[Any, Row], name: object = "") -> None:
        self._honest, self._bend, self._last, self._name = honest, bend, last, name
        self.is_secure = honest.is_secure

    def discrete_gaussian(self, scale: Any, shape: Any) -> Row:
        """See Noise."""
        row = self._honest.discrete_gaussian(scale, shape).reshape(-1)
        bent = self._bend(row, self._last.get(self._name, np.roll(row, 1)))
        self._last[self._name] = row
        return bent.reshape(shape)
