"""Puts the grid of a run whose nodes have devices on virtual time."""

from __future__ import annotations

import math

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError
from fedlearn.data.partitioning import partition_table
from fedlearn.devices import Fleet, load_devices
from fedlearn.engine.virtual_time.timed_grid import VirtualTimeGrid
from fedlearn.engine.virtual_time.trips import Batches
from fedlearn.models import model_spec
from fedlearn.models.loaded import dataset_of


def with_devices(grid: Grid, config: RunConfig) -> Grid:
    """Return the grid on virtual time, if the run's nodes have devices; else the grid as it is.

    Raises
    ------
    SettingError
        If no node can ever report.
    """
    if not config.devices.name:
        return grid
    fleet, examples = fleet_of(config)
    held = _held(config)
    partial, size = config.training.partial, config.training.batch_size
    _check(fleet, np.minimum(held, size) if partial else examples, config)
    batches = Batches(held, size) if partial else None
    return VirtualTimeGrid(grid, fleet, examples, batches)


def fleet_of(config: RunConfig) -> tuple[Fleet, NDArray[np.int64]]:
    """Return the devices of the nodes, and how many examples each looks at in one training, by partition."""
    held = _held(config)
    fleet = load_devices(config.devices, clients=config.clients, seed=config.seed, examples=held)
    passes = config.training.local_epochs if model_spec(config.model.name).trains_in_steps else 1
    return fleet, held * passes


def _held(config: RunConfig) -> NDArray[np.int64]:
    """Return how many examples each node trains on."""
    table = partition_table(dataset_of(config), config.data, num_partitions=config.clients, seed=config.seed)
    return table.sizes()


def _check(fleet: Fleet, examples: NDArray[np.int64], config: RunConfig) -> None:
    """Raise SettingError for devices of which none can ever report."""
    settings, deadline = config.devices, config.rounds.reporting_deadline
    if (fleet.available == 0).all():
        raise SettingError(
            "devices.name", settings.name, "no device can ever be reached: available is 0 for all of them"
        )
    if (fleet.dropout == 1).all():
        raise SettingError("devices.name", settings.name, "every training is lost: dropout is 1 for all of them")
    seconds = fleet.startup + examples * fleet.seconds_per_example
    fastest = float(seconds[examples > 0].min(initial=math.inf))
    if deadline <= fastest < math.inf:
        raise SettingError(
            "rounds.reporting_deadline", deadline,
            f"the fastest of the devices {settings.name!r} trains for {fastest:.4g} s: wait longer, or give it less",
        )  # fmt: skip
