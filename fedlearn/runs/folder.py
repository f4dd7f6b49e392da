"""The run folder's small files: settings, environment, summary; and the lock that keeps two runs apart."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import TypeAdapter, ValidationError

from fedlearn.cache.trusted import lock, say_once
from fedlearn.config import RunConfig, config_from, flat_from_file, to_flower
from fedlearn.config.tables.running import DEVICE_SETTING, kind_of_device
from fedlearn.data.base import DataSpec
from fedlearn.data.partitioning import is_map
from fedlearn.data.sources.paths import HUB, is_path
from fedlearn.devices.files import is_file
from fedlearn.models import model_spec
from fedlearn.models.loaded import dataset_of, fingerprint_of
from fedlearn.plugging.objects import is_reference
from fedlearn.runs.checkpoint import CHECKPOINT
from fedlearn.runs.files import storing, write_atomically
from fedlearn.runs.manifest import Manifest, Setting
from fedlearn.runs.origin import command_line, commit_of
from fedlearn.runs.reading import open_regular, read_small
from fedlearn.words.errors import SettingError, UsageError, said

SETTINGS = "settings.toml"
ENVIRONMENT = "environment.json"
EVENTS = "events.jsonl"
SUMMARY = "summary.json"
DATA = "data.json"

SOURCE = Path(__file__).parents[2]  # of fedlearn: a checkout, or what is installed, which may lie in somebody else's

FREE_TO_CHANGE = (
    "engine.name", "engine.workers", "engine.options", "out", "data.dir", "data.notice",
    "rounds.total", "rounds.store_every", "evaluation.",
)  # fmt: skip
"""Settings that a resumed run may have other values of: none of them changes the bytes of a committed round."""

REPORTED_PACKAGES = (
    "fedlearn", "flwr", "flwr-datasets", "torch", "torchvision", "numpy", "numba", "opendp", "scikit-learn",
)  # fmt: skip


def kept_settings(config: RunConfig) -> dict[str, Setting]:
    """Return the settings that a run has to keep: all that are not free to change, and that are not places of files.

    A study may be moved or copied: what its files hold is told by the fingerprint of the data and ``devices.sha256``.
    """
    free = free_to_change(config)
    return {
        name: _kept(name, value)
        for name, value in to_flower(config).items()
        if not name.startswith(free) and not _is_place(name, value)
    }


def _is_place(name: str, value: Setting) -> bool:
    """Return whether a setting says where a file or folder lies that a run reads."""
    if name == "data.dataset":
        return is_path(str(value)) and not str(value).startswith(HUB)
    return (name == "data.partition" and is_map(str(value))) or (name == "devices.name" and is_file(str(value)))


def _kept(name: str, value: Setting) -> Setting:
    """Return what a run keeps of a setting: of a device its kind."""
    return kind_of_device(str(value)) if name == DEVICE_SETTING else value


def _is_there(place: str) -> bool:
    with suppress(OSError, ValueError):  # as of names that no file can have
        return Path(place).exists()
    return False


def free_to_change(config: RunConfig) -> tuple[str, ...]:
    """Return the settings that a resumed run may have other values of: rounds are none where they divide a budget."""
    divides = model_spec(config.model.name).is_planned
    return tuple(name for name in FREE_TO_CHANGE if not (divides and name == "rounds.total"))


def new_folder(runs: Path = Path("runs")) -> Path:
    """Make a folder named after the time of day, and return it; nobody else gets the same one.

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
            continue  # of another run that was begun in this second
        except OSError as error:
            raise UsageError(f"{folder}: {error.strerror}: name a folder that can be written to by --out") from None
    raise AssertionError("counting has no end")


class RunFolder:
    """Where a run writes.

    Parameters
    ----------
    path
        Is made if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events = path / EVENTS

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from running in this folder meanwhile.

        Raises
        ------
        UsageError
            If one is, or the folder cannot be made or written to.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path / ".lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW)
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror}: name a folder that can be written to by --out") from None
        try:
            try:
                if not lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    say_once(f"{self.path}: its disk knows no locks: start no second process in this folder")
            except BlockingIOError:
                raise UsageError(f"{self.path}: another process is running in this folder") from None
            yield
        finally:
            os.close(descriptor)

    @property
    def has_settings(self) -> bool:
        """Whether a run was begun here."""
        return (self.path / SETTINGS).exists()

    def write_settings(self, config: RunConfig) -> None:
        """Store the resolved settings, and what the run was begun with."""
        anywhere = config.model_copy(update={"out": ""})  # so that --config can read it for another run
        with storing(self.path):
            write_atomically(self.path / SETTINGS, tomli_w.dumps(anywhere.model_dump()).encode())
            if not (self.path / ENVIRONMENT).exists():
                about = {**environment(), "folder": str(self.path.resolve())}
                write_atomically(self.path / ENVIRONMENT, json.dumps(about, indent=2).encode())

    def write_spec(self, spec: DataSpec) -> None:
        """Store what is public of the data: with it and the settings the model can be made again without them."""
        with storing(self.path):
            write_atomically(self.path / DATA, json.dumps(asdict(spec), indent=2).encode())

    def read_spec(self) -> DataSpec:
        """Return what is public of the data set.

        Raises
        ------
        UsageError
            If that was not stored, or cannot be read.
        """
        path = self.path / DATA
        try:
            return TypeAdapter(DataSpec).validate_json(read_small(path))
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}: the run was not begun, or by an earlier version") from None
        except ValidationError as error:
            raise UsageError(f"{path}: it is not what was written: {error.errors()[0]['msg']}") from None

    def read_settings(self) -> dict[str, Any]:
        """Return the stored settings as a flat table.

        Raises
        ------
        UsageError
            If there are none, or they cannot be read.
        """
        path = self.path / SETTINGS
        if not self.has_settings:
            raise UsageError(f"--resume {self.path}: there is no run, {SETTINGS} is missing")
        try:
            open_regular(path).close()
        except OSError as error:
            raise UsageError(
                f"{path}: {error.strerror}: put back the one that was written, or begin another run"
            ) from None
        try:
            return self._found_again(flat_from_file(path))
        except (ValueError, RecursionError) as error:
            what = " ".join(str(error).split())[:200]
            raise UsageError(f"{path}: not valid TOML: {what}; put back what was written") from None

    def _found_again(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return settings whose files, where they are gone, are those that lie to this folder as they lay to the first.

        So a study that was moved or copied with its data goes on without a word.
        """
        places = {name: str(value) for name, value in settings.items() if _is_place(name, value)}
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
        """Refuse other settings than the run was begun with; the same files of data may lie elsewhere."""
        stored = to_flower(config_from(self.read_settings(), source=str(self.path / SETTINGS)))
        free = free_to_change(config)
        for name, value in to_flower(config).items():
            if _kept(name, value) != _kept(name, stored[name]) and not name.startswith(free):
                if _is_place(name, value) and _is_place(name, stored[name]) and self._holds_data_of(config):
                    continue
                other = "other code: " if is_reference(stored[name]) and is_reference(value) else ""
                raise SettingError(name, value, f"the run in {self.path} was begun with {other}{stored[name]!r}")

    def _holds_data_of(self, config: RunConfig) -> bool:
        """Return whether the run was begun with the data that the settings name, wherever they lay then."""
        data = Manifest.read(self.path / CHECKPOINT).data
        return data in ("", fingerprint_of(config, dataset_of(config)))

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Store the results."""
        with storing(self.path):
            write_atomically(self.path / SUMMARY, json.dumps(summary, indent=2).encode())

    @property
    def has_summary(self) -> bool:
        """Whether a run has ended here."""
        return (self.path / SUMMARY).is_file()

    def read_summary(self) -> dict[str, Any]:
        """Return the stored results.

        Raises
        ------
        UsageError
            If there are none, or they cannot be read.
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


def environment() -> dict[str, Any]:
    """Return what a reader needs to know to repeat the run: versions, machine, command line, commits."""
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "packages": {name: _version(name) for name in REPORTED_PACKAGES},
        "command": command_line(),
        "commit": commit_of(Path.cwd()),
        "fedlearn_commit": commit_of(SOURCE) if (SOURCE / ".git").exists() else None,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None  # fedlearn itself is not installed when it runs as a Flower App


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
