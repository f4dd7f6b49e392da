"""The changes of single clients in a run folder (``contributions.keep``), a file for each round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from fedlearn.core.errors import UsageError
from fedlearn.core.state import Array, Entries, State, Update
from fedlearn.runs.files import storing, write_atomically
from fedlearn.runs.names import CONTRIBUTIONS
from fedlearn.runs.state_files import pack_state, unpack_state

FIRST = "first"  # the state before round 1


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one client in one round, with its weight in the mean."""

    client: int
    weight: float
    update: Update

    @classmethod
    def of(cls, client: int, weight: float, update: Update, state: State) -> Self:
        """Return the change of an update; of weights, what is left without the state that they are based on."""
        changes = {name: _less(entries, state[name]) if name in state else entries for name, entries in update.items()}
        return cls(client, weight, changes)


def write_first(folder: Path, state: State) -> None:
    """Write the state before round 1."""
    _write(folder / CONTRIBUTIONS / f"{FIRST}.safetensors", state)


def write_changes(folder: Path, round_number: int, changes: Sequence[Change]) -> None:
    """Write the changes of a round."""
    arrays: dict[str, Array] = {}
    for each in changes:
        arrays[f"{each.client}/weight"] = np.array([each.weight], np.float64)
        for name, entries in each.update.items():
            arrays[f"{each.client}/values/{name}"] = entries.values
            if entries.positions is not None:
                arrays[f"{each.client}/positions/{name}"] = entries.positions
    _write(folder / CONTRIBUTIONS / _name(round_number), arrays)


def read_first(folder: Path) -> dict[str, Array]:
    """Return the state before round 1.

    Raises
    ------
    UsageError
        If the run has stored no changes.
    """
    return _read(folder / CONTRIBUTIONS / f"{FIRST}.safetensors")


def read_changes(folder: Path, round_number: int) -> list[Change]:
    """Return the changes of a round, in the order of clients; none of a round that was skipped."""
    path = folder / CONTRIBUTIONS / _name(round_number)
    arrays = _read(path) if path.exists() else {}
    found: dict[int, dict[str, Entries]] = {}
    for key, array in arrays.items():
        client, what, *name = key.split("/", 2)
        if what == "values":
            entries = Entries(array, arrays.get(f"{client}/positions/{name[0]}"))
            found.setdefault(int(client), {})[name[0]] = entries
    return [Change(each, float(arrays[f"{each}/weight"][0]), found[each]) for each in sorted(found)]


def _name(round_number: int) -> str:
    return f"round-{round_number:06d}.safetensors"


def _less(entries: Entries, state: Array) -> Entries:
    flat = state.reshape(-1)
    before = flat if entries.positions is None else flat[entries.positions]
    return Entries(entries.values - before, entries.positions)


def _write(path: Path, arrays: State) -> None:
    with storing(path.parent.parent):
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, pack_state(arrays))


def _read(path: Path) -> dict[str, Array]:
    try:
        return unpack_state(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: the run needs contributions.keep = true") from None
    except Exception as error:  # of safetensors
        raise UsageError(f"{path}: it is not what was written: {error}") from None
