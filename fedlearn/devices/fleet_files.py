"""Fleets from a user's file: CSV, Parquet or TOML, never a pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedlearn.config.syntax import parsed
from fedlearn.core.errors import said
from fedlearn.core.seeding import rng_for
from fedlearn.devices.fleet import RANGES, Fleet
from fedlearn.plugins.registry import did_you_mean

SUFFIXES = (".csv", ".parquet", ".toml")
LARGEST = 1 << 30  # bytes
NAMES = (*RANGES, "group", "share")
FEDSCALE = ("computation", "communication")  # milliseconds of inference an example; kbit/s both ways
BACKWARD = 3.0  # a step of training takes as long as three inferences, as FedScale counts

Columns = Mapping[str, Sequence[Any]]


def is_file(name: str) -> bool:
    """Return whether a name is the name of a file of devices."""
    return name.endswith(SUFFIXES)


def fleet_from(path: Path, *, clients: int, seed: int) -> Fleet:
    """Return the devices that a file describes.

    The file's columns are those of `Fleet`, of which only ``seconds_per_example`` is needed, and ``group``, a name. Row
    i is the device of node i. With a column ``share`` the rows are kinds of devices instead, and each node's kind is
    drawn with that probability. FedScale's columns ``computation`` and ``communication`` are read as well. In TOML the
    rows are tables ``[[device]]``.

    Raises
    ------
    ValueError, OSError
        In one line, where the file cannot be read or has a number that no device can have.
    """
    columns = _known(_columns(path))
    rows = len(columns["seconds_per_example"])
    numbers = {name: _numbers(name, column) for name, column in columns.items() if name in (*RANGES, "share")}
    if "share" in numbers:
        share = numbers.pop("share")
        if not (share >= 0).all() or not 0 < share.sum() < np.inf:
            raise ValueError("share must be finite, from 0, and not all of them 0")
        row = rng_for(seed, purpose="devices/kind").choice(rows, clients, p=share / share.sum())
    elif rows < clients:
        raise ValueError(f"it has {rows} devices, the run has {clients} clients: add rows, or a column 'share'")
    else:
        row = np.arange(clients)
    names = [said(name) for name in columns.get("group", ["all"] * rows)]
    groups = list(dict.fromkeys(names))
    kinds = np.array([groups.index(name) for name in names])
    of_nodes = {name: column[row] for name, column in numbers.items()}
    return Fleet.of(clients, seed, **of_nodes, group=kinds[row], groups=groups)


def _columns(path: Path) -> dict[str, Sequence[Any]]:
    if path.stat().st_size > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")
    if path.suffix == ".toml":
        return _toml_columns(path)
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    try:
        table = pa.csv.read_csv(path) if path.suffix == ".csv" else pa.parquet.read_table(path)
    except pa.ArrowException as error:
        raise ValueError(said(error)) from None
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _toml_columns(path: Path) -> dict[str, Sequence[Any]]:
    tree = parsed(path.read_bytes())
    rows = tree.get("device")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ValueError("write each device, or kind of device, as a table [[device]]")
    if any(row.keys() != rows[0].keys() for row in rows):
        raise ValueError("all tables [[device]] must have the same keys")
    return {name: [row[name] for row in rows] for name in rows[0]}


def _known(columns: dict[str, Sequence[Any]]) -> Columns:
    """Return the columns by their names in `Fleet`; raise ValueError for other columns."""
    for name in columns:
        if name not in (*NAMES, *FEDSCALE):
            raise ValueError(
                f"there is no column {said(name)!r}{did_you_mean(name, NAMES)}; choose of {', '.join(NAMES)}"
            )
    if "computation" in columns:
        columns["seconds_per_example"] = BACKWARD / 1000 * _numbers("computation", columns["computation"])
    if "communication" in columns:
        columns["down"] = columns["up"] = 1000 / 8 * _numbers("communication", columns["communication"])
    if not len(columns.get("seconds_per_example", ())):
        raise ValueError("the column seconds_per_example is missing, or empty")
    return columns


def _numbers(name: str, values: Sequence[Any]) -> Any:
    for row, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name} of row {row + 1} is {said(repr(value))}, and no number")
    return np.array(values, np.float64)
