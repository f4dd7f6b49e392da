"""Where runs are: in a run folder itself, in a sweep, or in a folder of run folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from fedlearn.runs.names import EVENTS, SETTINGS, SUMMARY, TABLE
from fedlearn.runs.reading import check_path
from fedlearn.words.errors import UsageError

MARKS = (SETTINGS, EVENTS, TABLE, SUMMARY)  # one of them makes a folder a run folder


def is_run(folder: Path) -> bool:
    """Return whether a folder holds a run, however little of it."""
    try:
        return any((folder / name).is_file() for name in MARKS) and not (folder / "sweep.toml").exists()
    except OSError:  # it is closed to us
        return False


def run_folders(paths: Iterable[Path]) -> dict[str, Path]:
    """Return the run folders in some folders, by name: that of a run, or its place in a sweep or folder of runs.

    Raises
    ------
    UsageError
        If a path is not there, or holds no run.
    """
    found: dict[str, Path] = {}
    for path in paths:
        check_path(path)
        folder = path.resolve()
        if not folder.is_dir():
            raise UsageError(f"{path}: there is no such folder")
        inside = runs_below(folder)
        if not inside:
            raise UsageError(f"{path}: it holds no run; name a run folder, a sweep, or a folder of run folders")
        for name, run in inside.items():
            if run not in found.values():
                found[_free(name, found)] = run
    return found


def runs_below(folder: Path) -> dict[str, Path]:
    """Return the run folders in a folder, itself or at any depth, by the name each has there."""
    if is_run(folder):
        return {folder.name: folder}
    return {_name_below(run, folder): run for run in sorted(_walk(folder))}


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the run folders below a folder; a run holds no other, and links are not followed."""
    for place, inside, _ in os.walk(folder):
        if is_run(Path(place)):
            inside.clear()
            yield Path(place)


def _name_below(run: Path, folder: Path) -> str:
    """Return a run's name inside a folder; a sweep keeps its runs in runs/, which says nothing."""
    parts = run.relative_to(folder).parts
    return "/".join(parts[1:] if len(parts) > 1 and parts[0] == "runs" else parts)


def _free(name: str, taken: Mapping[str, Path]) -> str:
    names = (name, *(f"{name} ({count})" for count in range(2, len(taken) + 3)))
    return next(each for each in names if each not in taken)
