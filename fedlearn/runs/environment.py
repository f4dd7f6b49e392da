"""environment.json: what a reader needs to know to repeat a run."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedlearn.runs.origin import command_line, commit_of

SOURCE = Path(__file__).parents[2]  # of fedlearn: a checkout, or what is installed, which may lie in somebody else's

REPORTED_PACKAGES = (
    "fedlearn", "flwr", "flwr-datasets", "torch", "torchvision", "numpy", "numba", "opendp", "scikit-learn",
)  # fmt: skip


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
