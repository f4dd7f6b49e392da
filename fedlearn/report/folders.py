"""Find run folders: a run folder itself, those of a sweep, or those in any folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from fedlearn.core.errors import UsageError
from fedlearn.runs.file_names import EVENTS, SETTINGS, SUMMARY, TABLE
from fedlearn.runs.safe_reading import check_path

MARKS = (SETTINGS, EVENTS, TABLE, SUMMARY)  # a folder with one of these files is a run folder


def is_run(folder: Path) -> bool:
    """Return whether a folder holds a run, even if most of its files are missing."""
    try:
        return any((folder / name).is_file() for name in MARKS) and not (folder / "sweep.toml").exists()
    except OSError:  # we may not read the folder
        return False


def run_folders(paths: Iterable[Path]) -> dict[str, Path]:
    """Return name -> run folder for all runs in some folders; the name is the folder's, or its path in a sweep.

    Raises
    ------
    UsageError
        If a path does not exist, or holds no run.
    """
    found: dict[str, Path] = {}
    taken: set[Path] = set()
    for path in paths:
        check_path(path)
        folder = path.resolve()
        if not folder.is_dir():
            raise UsageError(f"{path}: there is no such folder: name a run folder, or a folder of runs")
        inside = runs_below(folder)
        if not inside:
            raise UsageError(f"{path}: it holds no run; name a run folder, a sweep, or a folder of run folders")
        for name, run in inside.items():
            if run not in taken:
                taken.add(run)
                found[_free(name, found)] = run
    return found


def runs_below(folder: Path) -> dict[str, Path]:
    """Return name -> run folder for all runs in a folder: the folder itself, or those below it at any depth."""
    if is_run(folder):
        return {folder.name: folder}
    return {_name_below(run, folder): run for run in sorted(_walk(folder))}


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the run folders below a folder; those inside of a run folder do not count, and links are not followed."""
    for place, inside, _ in os.walk(folder):
        if is_run(Path(place)):
            inside.clear()
            yield Path(place)


def _name_below(run: Path, folder: Path) -> str:
    """Return the name of a run inside a folder: its path there, without the runs/ of a sweep."""
    parts = run.relative_to(folder).parts
    return "/".join(parts[1:] if len(parts) > 1 and parts[0] == "runs" else parts)


def _free(name: str, taken: Mapping[str, Path]) -> str:
    names = chain([name], (f"{name} ({count})" for count in range(2, len(taken) + 3)))
    return next(each for each in names if each not in taken)
