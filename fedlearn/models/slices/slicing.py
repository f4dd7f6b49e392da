"""Which client has which entries: the ratio of each client, and the units that a layer keeps at a ratio.

A *unit* is a channel, a feature or a dimension of an attention head. A slice keeps some units of each hidden width, the
same ones wherever that width counts units; so a slice of the arrays is a smaller module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError
from fedlearn.core.state import ArraySpec, Entries, Layout, Positions, State, Update
from fedlearn.data.dataset import Dataset
from fedlearn.data.partitioning import partition_table
from fedlearn.devices import load_devices

Axis = NDArray[np.int64]
"""For each place of one axis of an array its width and its unit, shape (2, size); the width 0 is that of all slices."""
Axes = Mapping[str, Sequence[Axis | None]]
"""Array -> its axes; None for an axis that no slice shortens."""
KeepUnits = Callable[[int, float, int], NDArray[np.bool_]]
"""Called with a width, a ratio and a round; returns which units of the width are kept, shape (width,)."""

RATIOS = "strategy.options.ratios"
SLICE = "slice"
"""Key of an instruction: the ratio of the slice that it brings; without it the state is whole."""
ALIVE = 64  # slices whose positions a process holds


def ordered_units(width: int, ratio: float, round_number: int) -> NDArray[np.bool_]:
    """Keep the first units, as HeteroFL and FjORD do: {0, ..., ceil(ratio * width) - 1}.

    >>> ordered_units(5, 0.5, 3).tolist()
    [True, True, True, False, False]
    """
    return np.arange(width) < max(math.ceil(round(ratio * width, 9)), 1)


def rolling_units(width: int, ratio: float, round_number: int) -> NDArray[np.bool_]:
    """Keep floor(ratio * width) units that begin one later in each round, as FedRolex does (equation 2).

    >>> rolling_units(5, 0.5, 1).tolist(), rolling_units(5, 0.5, 5).tolist()
    ([True, True, False, False, False], [True, False, False, False, True])
    """
    count = max(math.floor(round(ratio * width, 9)), 1)
    return (np.arange(width) - (round_number - 1)) % width < count


@dataclass(frozen=True)
class Slicing:
    """How a strategy slices.

    Parameters
    ----------
    keep
        Which units a slice keeps.
    ratios
        Share of the units of each width: a list that clients take in turns, or a table by kind of device.
    by_data
        The clients with the most examples take the largest ratios of the list, an equal number of clients each.
    rule
        Slicing rule for layers of one's own, as ``"module:function"``; empty for none.
    draws
        Whether each local step draws its width among the ratios up to the client's.
    """

    keep: KeepUnits
    ratios: Sequence[float] | Mapping[str, float]
    by_data: bool = False
    rule: str = ""
    draws: bool = False

    @property
    def levels(self) -> list[float]:
        """The different ratios, the largest first."""
        ratios = self.ratios.values() if isinstance(self.ratios, Mapping) else self.ratios
        return sorted(set(ratios), reverse=True)

    def by_client(self, config: RunConfig, dataset: Dataset) -> NDArray[np.float64]:
        """Return the ratio of each client, by partition.

        Raises
        ------
        SettingError
            For ratios by kind of device of a run without devices, or of a kind that is not named.
        """
        clients = np.arange(config.clients)
        if not isinstance(self.ratios, Mapping):
            ratios = np.array(sorted(self.ratios, reverse=True) if self.by_data else self.ratios)
            if not self.by_data:
                return ratios[clients % len(ratios)]
            ranks = np.argsort(np.argsort(-_examples(config, dataset), kind="stable"))
            return ratios[ranks * len(ratios) // config.clients]
        if not config.devices.name:
            raise SettingError(RATIOS, dict(self.ratios), "there are no kinds of devices: give devices.name, or a list")
        fleet = load_devices(
            config.devices, clients=config.clients, seed=config.seed, examples=_examples(config, dataset)
        )
        if lacking := sorted(set(fleet.groups) - self.ratios.keys()):
            raise SettingError(RATIOS, dict(self.ratios), f"give the ratio of devices of the kind {lacking[0]!r}, too")
        return np.array([self.ratios[fleet.group_of(int(node))] for node in clients])


def _examples(config: RunConfig, dataset: Dataset) -> NDArray[np.int64]:
    table = partition_table(dataset, config.data, num_partitions=config.clients, seed=config.seed)
    return np.diff(np.asarray(table.offsets))


class Slices:
    """The slices of one state.

    Parameters
    ----------
    axes
        Of the arrays of the state; an array that is missing is in every slice.
    layout
        Of the whole state.
    """

    def __init__(self, keep: KeepUnits, axes: Axes, layout: Layout) -> None:
        self._keep, self._axes, self._layout = keep, axes, layout
        self.positions = lru_cache(maxsize=ALIVE)(self._positions)

    def masks(self, name: str, ratio: float, round_number: int) -> list[NDArray[np.bool_] | None]:
        """Return which places of each axis of an array are in a slice; None for all."""
        return [None if axis is None else kept(axis, self._keep, ratio, round_number) for axis in self._axes[name]]

    def of(self, state: State, ratio: float, round_number: int) -> dict[str, NDArray[np.generic]]:
        """Return the slice of a state: smaller arrays of the same names."""
        sliced = {}
        for name, (shape, positions) in self.positions(ratio, round_number).items():
            sliced[name] = state[name] if positions is None else state[name].reshape(-1)[positions].reshape(shape)
        return sliced

    def layout(self, ratio: float, round_number: int) -> Layout:
        """Return the layout of a slice."""
        found = self.positions(ratio, round_number)
        return {name: ArraySpec(shape, self._layout[name].dtype) for name, (shape, _) in found.items()}

    def back(self, update: Update, ratio: float, round_number: int) -> dict[str, Entries]:
        """Return the update of the whole state that an update of a slice is; the other entries are null."""
        found, whole = self.positions(ratio, round_number), {}
        for name, entries in update.items():
            positions = found[name][1]
            if positions is not None and entries.positions is not None:
                positions = positions[entries.positions]
            whole[name] = Entries(entries.values, entries.positions if positions is None else positions)
        return whole

    def _positions(self, ratio: float, round_number: int) -> dict[str, tuple[tuple[int, ...], Positions | None]]:
        """Return of each array the shape of its slice and the positions of its entries; None for all entries."""
        found: dict[str, tuple[tuple[int, ...], Positions | None]] = {}
        for name, spec in self._layout.items():
            masks = self.masks(name, ratio, round_number) if name in self._axes else []
            if all(mask is None or mask.all() for mask in masks):
                found[name] = spec.shape, None
                continue
            places = [
                np.arange(size) if mask is None else np.flatnonzero(mask)
                for size, mask in zip(spec.shape, masks, strict=True)
            ]
            shape = tuple(map(len, places))
            found[name] = shape, np.ravel_multi_index(np.ix_(*places), spec.shape).reshape(-1)
        return found


def kept(axis: Axis, keep: KeepUnits, ratio: float, round_number: int) -> NDArray[np.bool_]:
    """Return which places of an axis a slice has, shape (size,)."""
    widths, units = axis
    mask: NDArray[np.bool_] = widths == 0
    for width in np.unique(widths[widths > 0]):
        of_width = widths == width
        mask[of_width] = keep(int(width), ratio, round_number)[units[of_width]]
    return mask
