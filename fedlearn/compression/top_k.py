"""The largest entries of the change, with their positions.

An entry that is not sent counts as zero: the mean is biased, and an unsent change is lost unless `residual` stands
before this stage. The share is of all entries together, not of each parameter: a parameter that changes more sends
more.
Source: Aji, Heafield 2017 (arXiv:1704.05021); Sattler et al. 2019 (arXiv:1903.02891).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Self

import numpy as np

from fedlearn.compression.codec import Payload
from fedlearn.compression.index_coding import longest, read_positions, write_positions
from fedlearn.compression.scales import zero_filled
from fedlearn.compression.stages import Part, Role, share_from
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.state import Array, ArraySpec, Entries, Layout, Positions, State, layout_of

SAMPLE = 1 << 14  # entries looked at to guess the threshold


class TopK:
    """Sends the entries of largest magnitude, of equal ones those at lower positions; integer parameters go whole.

    Parameters
    ----------
    keep_ratio
        Share of the floating entries that is sent, in (0, 1].
    """

    role = Role.SPARSIFIER
    needs_change = True
    leaves_null = False
    allows_residual = True

    def __init__(self, *, keep_ratio: float) -> None:
        self.keep_ratio = keep_ratio

    @classmethod
    def from_argument(cls, argument: str, settings: CompressionSettings) -> Self:
        """Return the stage; the argument is the keep ratio."""
        return cls(keep_ratio=share_from(argument, settings.keep_ratio))

    def parts(self, layout: Layout) -> Mapping[str, Part]:
        """Return the encoded positions of each dtype."""
        sizes = {dtype: sum(layout[name].size for name in names) for dtype, names in _floating(layout).items()}
        return {f"{dtype}/positions": Part("uint8", longest(size), exact=False) for dtype, size in sizes.items()}

    def choose(self, arrays: State, *, seed: int) -> tuple[Mapping[str, Positions | None], Payload]:
        """Return the positions of the largest entries."""
        layout = layout_of(arrays)
        payload: dict[str, Array] = {}
        found: dict[str, Positions] = {}
        for dtype, names in _floating(layout).items():
            joined = np.concatenate([arrays[name].reshape(-1) for name in names])
            found[dtype] = largest(joined, self._count(len(joined)))
            payload[f"{dtype}/positions"] = write_positions(found[dtype])
        return _by_parameter(layout, found), payload

    def chosen(self, payload: Payload, *, layout: Layout, seed: int) -> Mapping[str, Positions | None]:
        """Return the positions that were sent."""
        found = {}
        for dtype, names in _floating(layout).items():
            size = sum(layout[name].size for name in names)
            found[dtype] = read_positions(payload[f"{dtype}/positions"], size=size, count=self._count(size))
        return _by_parameter(layout, found)

    def restored(self, entries: Entries, spec: ArraySpec) -> Entries:
        """Return all entries of a parameter, zero for those that were not sent."""
        return zero_filled(entries, spec)

    def _count(self, size: int) -> int:
        return min(max(round(self.keep_ratio * size), 1), size)


def largest(values: Array, count: int) -> Positions:
    """Return the positions of the entries of largest magnitude, at least one.

    NaN counts as larger than every number: it is sent, and the gate refuses it.

    >>> largest(np.array([1.0, -3.0, 2.0, 3.0]), 2)
    array([1, 3])
    """
    word = np.dtype(f"u{values.dtype.itemsize}")
    # As whole numbers, magnitudes keep their order, and NaN comes last.
    magnitudes = values.view(word) & word.type(np.iinfo(word).max >> 1)
    likely = _above_guess(magnitudes, count)
    among = magnitudes[likely]
    least = np.partition(among, len(among) - count)[len(among) - count]
    sure = likely[among > least]
    tied = likely[among == least][: count - len(sure)]
    return np.sort(np.concatenate([sure, tied]))


def _above_guess(magnitudes: Array, count: int) -> Positions:
    """Return the positions of at least `count` entries, with the largest among them, by a threshold from a sample."""
    if len(magnitudes) > 4 * SAMPLE:
        sample = np.sort(magnitudes[:: len(magnitudes) // SAMPLE])
        share = count / len(magnitudes)
        rank = len(sample) * share + 4 * (len(sample) * share) ** 0.5 + 1  # four deviations: seldom too few
        if rank < len(sample):
            likely = np.flatnonzero(magnitudes >= sample[len(sample) - int(rank)])
            if len(likely) >= count:
                return likely
    return np.arange(len(magnitudes))


def _floating(layout: Layout) -> dict[str, list[str]]:
    """Return the names of floating parameters that have entries, by dtype, in their order."""
    names: dict[str, list[str]] = {}
    for name in sorted(layout):
        if np.dtype(layout[name].dtype).kind == "f" and layout[name].size:
            names.setdefault(layout[name].dtype, []).append(name)
    return names


def _by_parameter(layout: Layout, found: Mapping[str, Positions]) -> dict[str, Positions | None]:
    """Return the positions in each parameter, from the positions in the joined vector of each dtype."""
    chosen: dict[str, Positions | None] = dict.fromkeys(sorted(layout))
    for dtype, names in _floating(layout).items():
        starts = np.cumsum([0, *(layout[name].size for name in names)])
        cuts = np.searchsorted(found[dtype], starts)
        for name, start, (first, last) in zip(names, starts, pairwise(cuts), strict=False):
            chosen[name] = found[dtype][first:last] - start
    return chosen
