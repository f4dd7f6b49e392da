"""Exact discrete Gaussian noise of one wide scale, for many numbers at once: one random word a number.

The curve C exp(-z^2 / (2 s^2)) over z = 0, 1, 2 ... is covered by columns of equal width w and of whole height. A try
is a uniform point in the columns; it is kept if it lies under the curve, else there is another. The z of a point that
is kept has a probability proportional to the curve at z: that is rejection sampling, whatever the columns are, as long
as no column is lower than the curve in it. Nearly all points lie so low in their column that no exponential is needed.

 1. A word of 64 random bits is a slot (16 bits), a sign (1) and a position in a column (the lowest log2(w)). Each slot
    is one unit of height of one column. Slots that no column needs mean another try; so does "minus 0".
 2. A slot that lies under the curve over the whole width of its column keeps its point.
 3. In the others the point has the height h + U above 0, h the slot's, U uniform in [0, 1), 64 bits of it first. It is
    kept if h + U < C exp(-x), x = z^2 / (2 s^2). In float64 the right side is off by less than ``ERROR``; closer than
    that (once in 2^37 such points) U gets more bits and exp(-x) more digits, in exact arithmetic, until they part.
 4. One slot stands for all z from 6 s on. Columns there are 128 w wide, which is more than s; that of number g = 0, 1
    ... is chosen with probability 2^-(g + 1), and the point kept with probability 2^(g + 8) C exp(-x): the same
    proportion as in 2. and 3., where a z has the probability of a slot / w. It is below 1: in the first, 2^8 C exp(-18)
    < 0.01, and each further column has a curve lower by exp(-6.5) at least.

Rejection by columns: Devroye 1986, "Non-Uniform Random Variate Generation", section VIII.2; exact coins: `exact`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy.exact import Bits, power_between, system_bits

NARROWEST = 64.0  # least scale: a column is at least one number wide
SLOTS = 2**16
REACH = 6  # scales that the columns cover
GROUP = 7  # log2 of the width of columns beyond them, in columns
SPARE = 1e-6  # of a slot: heights computed in float64 are off by far less
# size / scale, its square and the exponential cost x 2^-51 + 2^-51 of exp(-x) <= 1 together, and C is below 2^10; the
# difference to a height below 2^10 costs 2^-43.
ERROR = 2.0**-38


def discrete_gaussian(scale: float, count: int, bits: Bits = system_bits) -> NDArray[np.int64]:
    """Return (count,) integers of probability proportional to exp(-z^2 / (2 scale^2)); 64 <= scale < 2^44."""
    columns, found, missing = _columns(scale), [np.zeros(0, np.int64)], count
    while missing:
        kept = columns.kept(missing + missing // 32 + 8, bits)[:missing]
        found.append(kept)
        missing -= len(kept)
    return np.concatenate(found)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The slots of one scale.

    Parameters
    ----------
    scale : float
        Standard deviation, s.
    log_width : int
        log2(w).
    unit : int
        Height of the curve at 0, C, in slots.
    count : int
        Number of columns.
    start : ndarray of int
        First z of the column of each slot, (SLOTS,).
    sure : int
        Number of slots that lie under the curve, which come first.
    heights : ndarray of float
        h of each slot that follows them, (m,); after these comes the slot of all z beyond the columns.
    """

    scale: float
    log_width: int
    unit: int
    count: int
    start: NDArray[np.int64]
    sure: int
    heights: NDArray[np.float64]

    def kept(self, tries: int, bits: Bits) -> NDArray[np.int64]:
        """Return the numbers of the tries whose points lie under the curve, in order."""
        word = bits(tries)
        slot = (word >> np.uint64(48)).astype(np.intp)
        size = self.start[slot]
        size += (word & np.uint64(2**self.log_width - 1)).view(np.int64)
        is_kept = slot < self.sure
        beyond = self.sure + len(self.heights)
        at = np.flatnonzero(~is_kept & (slot < beyond))
        is_kept[at] = self._under(size[at], self.heights[slot[at] - self.sure], bits)
        for each in np.flatnonzero(slot == beyond):
            is_kept[each], size[each] = self._beyond(bits)
        is_minus = (word & np.uint64(2**47)).astype(np.bool_)
        is_kept[np.flatnonzero(size == 0)] &= ~is_minus[size == 0]
        return np.where(is_minus, -size, size)[is_kept]

    def _under(self, size: NDArray[np.int64], height: NDArray[np.float64], bits: Bits) -> NDArray[np.bool_]:
        """Return whether points of these sizes, in slots of these heights, lie under the curve."""
        word = bits(len(size))
        distance = height + word * 2.0**-64 - self.unit * np.exp(-((size / self.scale) ** 2) / 2)
        is_under: NDArray[np.bool_] = distance < 0
        for at in np.flatnonzero(np.abs(distance) < ERROR):
            is_under[at] = _is_under(int(size[at]), int(height[at]), int(word[at]), self.scale, self.unit, bits)
        return is_under

    def _beyond(self, bits: Bits) -> tuple[bool, int]:
        """Return whether a point beyond the columns is kept, and its size."""
        group = 0
        while (word := int(bits(1)[0])) == 2**64 - 1:
            group += 64
        group += (~word & (word + 1)).bit_length() - 1  # ones at the end
        wide = self.log_width + GROUP
        position = int(bits(1)[0]) & (2**wide - 1)
        size = (self.count << self.log_width) + (group << wide) + position
        is_kept = _is_under(size, 0, int(bits(1)[0]), self.scale, self.unit << (GROUP + group + 1), bits)
        return is_kept, size if is_kept else 0


def _is_under(size: int, height: int, word: int, scale: float, unit: int, bits: Bits) -> bool:
    """Return whether height + U < unit exp(-x), exactly; U's first 64 bits are ``word``."""
    x, length = Fraction(size) ** 2 / (2 * Fraction(scale) ** 2), 64
    if not x:
        return height < unit
    while True:
        low, high = power_between(x, length)
        if Fraction((height << length) + word + 1, unit << length) <= low:
            return True
        if Fraction((height << length) + word, unit << length) >= high:
            return False
        word, length = word << 64 | int(bits(1)[0]), length + 64


@lru_cache(maxsize=16)
def _columns(scale: float) -> _Columns:
    """Return the columns of a scale: 64 to 128 of them in each standard deviation."""
    log_width = math.frexp(scale)[1] - 7
    ratio = 2.0**log_width / scale  # w / s, from 1 / 128 to 1 / 64
    count = math.ceil(REACH / ratio)
    curve = np.exp(-((np.arange(count + 1) * ratio) ** 2) / 2)  # at the edges of the columns
    unit = int((SLOTS - 1 - 2 * count) / curve[:-1].sum())
    whole = np.ceil(unit * curve[:-1] + SPARE).astype(np.int64)
    sure = np.maximum(np.floor(unit * curve[1:] - SPARE), 0).astype(np.int64)
    column = np.concatenate([np.repeat(np.arange(count), sure), np.repeat(np.arange(count), whole - sure)])
    start = np.zeros(SLOTS, np.int64)
    start[: len(column)] = column << log_width
    heights = np.concatenate([np.arange(low, high) for low, high in zip(sure, whole, strict=True)])
    return _Columns(scale, log_width, unit, count, start, int(sure.sum()), heights.astype(np.float64))
