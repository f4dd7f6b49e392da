"""Describe the environment of a run (environment.json), so that a reader can repeat the run."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedlearn.runs.origin import command_line, commit_of

SOURCE = Path(__file__).parents[2]  # fedlearn's own: a checkout, or site-packages, which may lie in another repository

REPORTED_PACKAGES = (
    "fedlearn", "flwr", "flwr-datasets", "torch", "torchvision", "numpy", "numba", "opendp", "scikit-learn",
)  # fmt: skip


def environment() -> dict[str, Any]:
    """Return versions, machine, command line and commits of the process."""
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


@cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None  # fedlearn itself is not installed when it runs as a Flower App


@cache
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
