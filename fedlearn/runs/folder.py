"""The run folder's small files: settings, environment, summary; and the lock that keeps two runs apart."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import tomli_w

from fedlearn.config import RunConfig, config_from, flat_from_file, to_flower
from fedlearn.errors import SettingError, UsageError
from fedlearn.runs.checkpoint import write_atomically

SETTINGS = "settings.toml"
ENVIRONMENT = "environment.json"
EVENTS = "events.jsonl"
SUMMARY = "summary.json"

FREE_TO_CHANGE = ("engine.", "out", "data.dir", "data.notice", "rounds.total", "evaluation.")
"""Settings that a resumed run may have other values of: none of them changes the bytes of a committed round."""

REPORTED_PACKAGES = (
    "fedlearn", "flwr", "flwr-datasets", "torch", "torchvision", "numpy", "numba", "opendp", "scikit-learn",
)  # fmt: skip


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
        """Keep other processes from running in this folder meanwhile."""
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path / ".lock", os.O_CREAT | os.O_RDWR)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(f"{self.path}: another process is running in this folder") from None
            yield
        finally:
            os.close(descriptor)

    def write_settings(self, config: RunConfig) -> None:
        """Store the resolved settings, and what the run was begun with."""
        anywhere = config.model_copy(update={"out": ""})  # so that --config can read it for another run
        write_atomically(self.path / SETTINGS, tomli_w.dumps(anywhere.model_dump()).encode())
        if not (self.path / ENVIRONMENT).exists():
            write_atomically(self.path / ENVIRONMENT, json.dumps(environment(), indent=2).encode())

    def read_settings(self) -> dict[str, Any]:
        """Return the stored settings as a flat table."""
        if not (self.path / SETTINGS).exists():
            raise UsageError(f"--resume {self.path}: there is no run, {SETTINGS} is missing")
        return flat_from_file(self.path / SETTINGS)

    def check_settings(self, config: RunConfig) -> None:
        """Refuse to go on with other settings than the run was begun with."""
        stored = to_flower(config_from(self.read_settings(), source=str(self.path / SETTINGS)))
        for name, value in to_flower(config).items():
            if value != stored[name] and not name.startswith(FREE_TO_CHANGE):
                raise SettingError(name, value, f"the run in {self.path} was begun with {stored[name]!r}")

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Store the results."""
        write_atomically(self.path / SUMMARY, json.dumps(summary, indent=2).encode())

    def read_summary(self) -> dict[str, Any]:
        """Return the stored results."""
        summary: dict[str, Any] = json.loads((self.path / SUMMARY).read_text(encoding="utf-8"))
        return summary


def environment() -> dict[str, Any]:
    """Return what a reader needs to know to repeat the run: versions and machine."""
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "packages": {name: _version(name) for name in REPORTED_PACKAGES},
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
