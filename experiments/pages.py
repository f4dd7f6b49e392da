"""Sections of pages of the documentation that the commands of experiments write, with when and where runs were made.

A section stands between two comments, so that a page has text of its own around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from shutil import copyfile

from fedlearn.core.errors import UsageError
from fedlearn.report.stored import StoredRun
from fedlearn.runs.file_names import SUMMARY
from fedlearn.runs.files import write_atomically

FIGURES = "figures"  # beside the page


def figures_of(name: str) -> str:
    """Return where the figures of a section lie, seen from its page, with the beginning of their names."""
    return f"{FIGURES}/{name}-"


def write_into(page: Path, name: str, section: str, *, maker: str, figures: Sequence[str], folder: Path) -> None:
    """Put a section into a page, in place of the one of its name that is there, with its figures beside the page.

    Parameters
    ----------
    maker
        The module whose command writes it.
    figures
        Names of the figures, which lie in `folder`.

    Raises
    ------
    UsageError
        If the page is not there.
    """
    begin, end = f"<!-- begin of {name}, made by {maker} -->\n", f"<!-- end of {name} -->\n"
    try:
        before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    except OSError as error:
        raise UsageError(f"--page {page}: {error.strerror}: name a page that is there") from None
    (page.parent / FIGURES).mkdir(exist_ok=True)
    for figure in figures:
        copyfile(folder / f"{figure}.svg", page.parent / f"{figures_of(name)}{figure}.svg")
    before = before if found else f"{before.rstrip()}\n\n"
    write_atomically(page, f"{before}{begin}\n{section}\n{end}{rest.partition(end)[2]}".encode())


def about(command: str, runs: Sequence[StoredRun], planned: int = 0) -> str:
    """Return in a sentence or two by which command runs were made, when, on what machines, and how long they took.

    Parameters
    ----------
    planned
        How many runs there are to be; 0 says nothing of it.
    """
    days = sorted({_day_of(run) for run in runs})
    ended = f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[-1]}"
    minutes = [seconds / 60 for seconds in known_cpu_seconds(runs)]
    least_and_most = dict.fromkeys(f"{edge(minutes):.1f}" for edge in (min, max) if minutes)
    took = f" A run took {' to '.join(least_and_most)} minutes of processor time." if minutes else ""
    machines = " and ".join(dict.fromkeys(map(_machine_of, runs)))
    count = f"{len(runs)} of {planned} planned" if planned > len(runs) else str(len(runs))
    return f"`{command}`: {count} runs that ended {ended}, on {machines}.{took}"


def _machine_of(run: StoredRun) -> str:
    get = run.environment.get
    processor = f"{get('processor', 'an unknown processor')}, {get('cores', '?')} cores"
    gpus = get("gpus") if run.settings.get("engine.device", "cpu") != "cpu" else None
    return f"{', '.join(gpus)} beside {processor}" if gpus else processor


def _day_of(run: StoredRun) -> str:
    return datetime.fromtimestamp((run.folder / SUMMARY).stat().st_mtime, UTC).date().isoformat()


def known_cpu_seconds(runs: Sequence[StoredRun]) -> list[float]:
    """Return the processor time of each run of which it is known, over all cores."""
    return [float(seconds) for run in runs if (seconds := run.summary.get("cpu_seconds")) is not None]


def commit_of(runs: Sequence[StoredRun]) -> str:
    """Return the first letters of the commits that made the runs, with a + where the clone had changes."""
    return ", ".join(dict.fromkeys(map(_commit, runs)))


def _commit(run: StoredRun) -> str:
    text = str(run.environment.get("fedlearn_commit") or "-")
    return text[:8] + ("+" if len(text) > 40 else "")
