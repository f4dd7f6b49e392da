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

GPUS = Path("/proc/driver/nvidia/gpus")  # a folder for each, where NVIDIA's driver is there
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
        "gpus": gpus_in(GPUS),
        "packages": {name: _version(name) for name in REPORTED_PACKAGES},
        "command": command_line(),
        "commit": commit_of(Path.cwd()),
        "fedlearn_commit": commit_of(SOURCE) if (SOURCE / ".git").exists() else None,
    }


def versions() -> dict[str, str | None]:
    """Return the versions of this process: of Python, and of the packages that make results."""
    return {"python": sys.version.split()[0], **{name: _version(name) for name in REPORTED_PACKAGES}}


def gpus_in(folder: Path) -> list[str]:
    """Return the models that NVIDIA's driver tells of in a folder, such as "NVIDIA H200"; torch is not asked.

    Empty without such a driver, or where it does not tell.
    """
    try:
        told = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*/information"))]
    except OSError:
        return []
    lines = [line.partition(":") for text in told for line in text.splitlines()]
    return [model.strip() for name, _, model in lines if name == "Model"]


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
