"""The run folder's small files: settings, environment, summary; and the lock that keeps two runs apart."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import tomli_w

from fedlearn.cache.trusted import lock, say_once
from fedlearn.config import RunConfig, config_from, flat_from_file, to_flower
from fedlearn.core.errors import SettingError, UsageError, said
from fedlearn.data.data_spec import DataSpec
from fedlearn.models import model_spec
from fedlearn.models.loaded import dataset_of, fingerprint_of
from fedlearn.plugins.objects import is_reference
from fedlearn.runs.environment import environment
from fedlearn.runs.file_names import CHECKPOINT, DATA, ENVIRONMENT, EVENTS, LOCK, SETTINGS, STOP, SUMMARY
from fedlearn.runs.files import storing, write_atomically
from fedlearn.runs.manifest import Manifest
from fedlearn.runs.public_data import read_spec
from fedlearn.runs.safe_reading import open_regular, read_small
from fedlearn.runs.settings_of_resume import free_to_change, is_place, kept

LOOKED_AT = 0.05  # seconds within which another process sees whether the folder is locked


def new_folder(runs: Path = Path("runs")) -> Path:
    """Make a folder named after the date and time, and return it; two calls never get the same one.

    Raises
    ------
    UsageError
        If it cannot be made.
    """
    name = f"{datetime.now():%Y%m%d-%H%M%S}"
    for count in itertools.count():
        folder = runs / (name if not count else f"{name}-{count}")
        try:
            folder.mkdir(parents=True, exist_ok=False)
            return folder
        except FileExistsError:
            continue  # another run was begun in this second
        except OSError as error:
            raise UsageError(f"{folder}: {error.strerror}: name a folder that can be written to by --out") from None
    raise AssertionError("counting has no end")


def _by_names_of_today(stored: dict[str, Any]) -> dict[str, Any]:
    """Return stored settings by the names that they have now.

    >>> _by_names_of_today({"engine.address": "", "engine.client_cpus": 2.0, "clients": 5})
    {'engine.options.client_cpus': 2.0, 'clients': 5}
    """
    renamed = {name: FORMER.get(name, (None, name)) for name in stored}
    return {today: stored[name] for name, (default, today) in renamed.items() if stored[name] != default}


def _is_there(place: str) -> bool:
    with suppress(OSError, ValueError):  # as for names that no file can have
        return Path(place).exists()
    return False


BEFORE_THERE_WAS_ONE = {"data.validation_share": 0.0}
"""Settings that older folders lack, and whose default follows from others: what their runs have done."""
FORMER = {
    "engine.address": ("", "engine.options.address"),
    "engine.client_cpus": (1.0, "engine.options.client_cpus"),
    "engine.client_gpus": (0.0, "engine.options.client_gpus"),
}
"""Setting that older folders have -> its default then, which is left out, and the name of today for other values."""


class RunFolder:
    """The folder of a run, and the small files in it.

    Parameters
    ----------
    path
        The folder; `locked` makes it if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events = path / EVENTS

    def make(self) -> None:
        """Make the folder if it does not exist; raise UsageError if that cannot be done."""
        with self._writable():
            self.path.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror}: name a folder that can be written to by --out") from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from running in this folder as long as the block lasts.

        Raises
        ------
        UsageError
            If another process is running in it, or the folder cannot be made or written to.
        """
        self.make()
        with self._writable():
            descriptor = os.open(self.path / LOCK, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW)
        try:
            self._lock(descriptor)
            (self.path / STOP).unlink(missing_ok=True)  # of a run that was killed
            yield
            (self.path / STOP).unlink(missing_ok=True)
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        for pause in (LOOKED_AT, 0.0):
            try:
                if not lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    say_once(f"{self.path}: its disk knows no locks: start no second process in this folder")
                return
            except BlockingIOError:
                time.sleep(pause)
        raise UsageError(f"{self.path}: another process is running in this folder")

    @property
    def has_settings(self) -> bool:
        """Whether a run was begun in this folder."""
        return (self.path / SETTINGS).exists()

    def write_settings(self, config: RunConfig) -> None:
        """Store the resolved settings and, when the run begins, its environment."""
        anywhere = config.model_copy(update={"out": ""})  # so that --config can read it for another run
        with storing(self.path):
            write_atomically(self.path / SETTINGS, tomli_w.dumps(anywhere.model_dump()).encode())
            if not (self.path / ENVIRONMENT).exists():
                about = {**environment(), "folder": str(self.path.resolve())}
                write_atomically(self.path / ENVIRONMENT, json.dumps(about, indent=2).encode())

    def write_spec(self, spec: DataSpec) -> None:
        """Store what is public of the data: the model can be made again from it and the settings, without the data."""
        with storing(self.path):
            write_atomically(self.path / DATA, json.dumps(asdict(spec), indent=2).encode())

    def read_spec(self) -> DataSpec:
        """Return what is public of the data set.

        Raises
        ------
        UsageError
            If the file was not stored, or cannot be read.
        """
        return read_spec(self.path)

    def read_settings(self) -> dict[str, Any]:
        """Return the stored settings: dotted name -> value.

        Raises
        ------
        UsageError
            If no settings were stored, or they cannot be read.
        """
        path = self.path / SETTINGS
        if not self.has_settings:
            raise UsageError(f"{self.path}: there is no run, {SETTINGS} is missing: name a run folder")
        try:
            open_regular(path).close()
        except OSError as error:
            raise UsageError(
                f"{path}: {error.strerror}: put back the one that was written, or begin another run"
            ) from None
        try:
            return self._found_again(BEFORE_THERE_WAS_ONE | _by_names_of_today(flat_from_file(path)))
        except (ValueError, RecursionError) as error:
            what = " ".join(str(error).split())[:200]
            raise UsageError(f"{path}: not valid TOML: {what}; put back what was written") from None

    def _found_again(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the settings with new paths for files that are missing, where the same relative path leads to a file.

        A study that was moved or copied together with its data goes on without a change of settings.
        """
        places = {name: str(value) for name, value in settings.items() if is_place(name, value)}
        missing = {name: place for name, place in places.items() if Path(place).is_absolute() and not _is_there(place)}
        first = self._first_place() if missing else ""
        if not first:
            return settings
        here = self.path.resolve()
        moved = {name: os.path.normpath(here / os.path.relpath(place, first)) for name, place in missing.items()}
        return settings | {name: place for name, place in moved.items() if _is_there(place)}

    def _first_place(self) -> str:
        """Return where the folder was when the run began; empty if that was not stored."""
        with suppress(OSError, ValueError, RecursionError):
            stored = json.loads(read_small(self.path / ENVIRONMENT))
            return str(stored.get("folder", "")) if isinstance(stored, dict) else ""
        return ""

    def check_settings(self, config: RunConfig) -> None:
        """Refuse settings that differ from those that the run was begun with; the same data may lie elsewhere."""
        stored = to_flower(config_from(self.read_settings(), source=str(self.path / SETTINGS)))
        free = free_to_change(config)
        for name, value in to_flower(config).items():
            if kept(name, value) != kept(name, stored[name]) and name not in free:
                if is_place(name, value) and is_place(name, stored[name]) and self._holds_data_of(config):
                    continue
                other = "other code: " if is_reference(stored[name]) and is_reference(value) else ""
                way = "begin another run"
                if model_spec(config.model.name).trains_in_steps:
                    way = f"start another run from its model, by --from {self.path}"
                what = f"the run in {self.path} began with {other}{stored[name]!r}: use that, or {way}"
                raise SettingError(name, value, what)

    def _holds_data_of(self, config: RunConfig) -> bool:
        """Return whether the run was begun with the same data, by its fingerprint, that the settings name now."""
        data = Manifest.read(self.path / CHECKPOINT).data
        return data in ("", fingerprint_of(config, dataset_of(config)))

    def has_other_table(self, spec: DataSpec) -> bool:
        """Return whether the run was begun with another declaration of its table, which no hash of its rows tells."""
        with suppress(UsageError):  # a damaged data.json is named by `fedlearn verify`, and is no reason to stop
            return self.read_spec().table != spec.table
        return False

    def check_table(self, spec: DataSpec) -> None:
        """Refuse, by a UsageError, a declared table whose declaration has changed since the run was begun."""
        if self.has_other_table(spec):
            raise UsageError(
                f"{spec.name}: its declaration has changed since the run in {self.path} was begun, so that the model "
                "would get other inputs: put the columns, bounds and categories back, or begin another run"
            )

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Store the results of the run (summary.json)."""
        with storing(self.path):
            write_atomically(self.path / SUMMARY, json.dumps(summary, indent=2).encode())

    @property
    def has_summary(self) -> bool:
        """Whether the run has ended and left its results."""
        return (self.path / SUMMARY).is_file()

    def read_summary(self) -> dict[str, Any]:
        """Return the stored results of the run.

        Raises
        ------
        UsageError
            If no results were stored, or they cannot be read.
        """
        path = self.path / SUMMARY
        try:
            summary = json.loads(read_small(path))
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}: the run has not ended") from None
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{path}: it is not what was written: {said(error)}") from None
        if not isinstance(summary, dict) or "model_sha256" not in summary:
            raise UsageError(f"{path}: it is not what was written: it names no model")
        return summary
