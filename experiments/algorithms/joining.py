"""Join the parts of a grid that were run in other folders, as on other machines."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from fedlearn.core.errors import UsageError
from fedlearn.runs.file_names import SUMMARY
from fedlearn.runs.folder import RunFolder

RUNS = "*/*/runs/*"  # below the folder of a grid: CELL/(tuning or reported)/runs/RUN


def join(part: Path, folder: Path) -> int:
    """Copy the completed runs of a part into the folder of a grid; return how many were not there.

    A run that both have must have the same final model. What it was run with is checked when the table is made: a run
    with other settings, or other data, is refused then.

    Raises
    ------
    UsageError
        If there is no run in the part, or a run of both has two final models.
    """
    found = [run for run in sorted(part.glob(RUNS)) if _sha_of(run)]
    if not found:
        raise UsageError(f"--join {part}: it holds no completed run: name the folder that a part was run in")
    copied = 0
    for run in found:
        goal = folder / run.relative_to(part)
        mine, theirs = _sha_of(goal), _sha_of(run)
        if mine and mine != theirs:
            raise UsageError(f"--join {part}: {run} ended with {theirs[:12]}, {goal} with {mine[:12]}: keep one")
        if not mine:
            _copy(run, goal)
            copied += 1
    return copied


def _sha_of(run: Path) -> str:
    """Return the SHA-256 of the final model of a completed run; empty of any other folder."""
    try:
        summary = json.loads((run / SUMMARY).read_text(encoding="utf-8"))
        return str(summary["model_sha256"]) if summary["status"] == "completed" else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _copy(run: Path, goal: Path) -> None:
    """Copy a run whole or not at all; one that had not ended gives way to it."""
    with RunFolder(goal.parents[1]).locked():
        begun = goal.with_name(f".{goal.name}.joining")
        shutil.rmtree(begun, ignore_errors=True)
        shutil.copytree(run, begun, symlinks=True)
        shutil.rmtree(goal, ignore_errors=True)
        begun.rename(goal)
