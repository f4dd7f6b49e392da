"""`fedlearn.runs` and `fedlearn.compare`: what the commands of these names print, as objects."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fedlearn.api.spelled import as_called
from fedlearn.report.folders import run_folders
from fedlearn.report.points import differing, seconds_of
from fedlearn.report.run_tables import sha_of
from fedlearn.report.stored import read_run

if TYPE_CHECKING:
    import pandas as pd

    from fedlearn.api.result import Run
    from fedlearn.report.stored import StoredRun

WIDTH = 110  # characters of a comparison as text
RUNS = Path("runs")


def runs(*folders: str | Path) -> pd.DataFrame:
    """Return all runs in some folders, one in each row; `load` opens one by its ``folder``.

    Parameters
    ----------
    folders : path
        Run folders, sweeps, or folders of runs; ``runs`` unless given.

    Returns
    -------
    DataFrame
        Indexed by name: ``folder``, ``state`` (completed, failed, interrupted, running or unfinished), ``data``,
        ``model``, ``strategy``, ``rounds``, ``metric`` and ``score`` (of the headline metric, missing without one),
        ``seconds``, ``bytes_up`` (missing where who took part is secret) and ``sha256`` of the model.

    Raises
    ------
    UsageError
        If a folder does not exist or holds no run.

    Examples
    --------
    >>> fedlearn.runs(run.folder)["state"].tolist()
    ['completed']
    """
    import pandas as pd

    with as_called({}):
        found = run_folders([Path(folder) for folder in folders or (RUNS,)])
    rows = [_row(read_run(name, folder)) for name, folder in found.items()]
    return pd.DataFrame(rows, index=pd.Index(list(found), name="name"))


def _row(run: StoredRun) -> dict[str, object]:

    metric = run.metrics.headline
    return {
        "folder": str(run.folder),
        "state": run.status,
        "data": run.settings.get("data.dataset"),
        "model": run.settings.get("model.name"),
        "strategy": run.settings.get("strategy.name"),
        "rounds": len(run.rounds),
        "metric": metric.name if metric else None,
        "score": run.summary.get(metric.name, run.latest(metric.name)) if metric else None,
        "seconds": seconds_of(run),
        "bytes_up": None if run.log.hides else run.total("bytes_up"),
        "sha256": sha_of(run),
    }


@dataclass(frozen=True)
class Comparison:
    """What tells two runs apart; it shows itself as ``fedlearn compare`` prints it."""

    first: Path
    second: Path

    @cached_property
    def settings(self) -> pd.DataFrame:
        """The settings that differ: columns A and B, indexed by setting."""
        import pandas as pd

        from fedlearn.report.comparing import stored_runs

        both = stored_runs(self.first, self.second)
        rows = {name: [run.settings.get(name) for run in both] for name in differing(both)}
        return pd.DataFrame.from_dict(rows, orient="index", columns=["A", "B"], dtype=object)

    @property
    def same_bytes(self) -> bool:
        """Whether both have a model, and its SHA-256 is the same."""
        from fedlearn.report.comparing import stored_runs

        one, other = map(sha_of, stored_runs(self.first, self.second))
        return one is not None and one == other

    @property
    def parting_round(self) -> int | None:
        """The first round in which any measured value but a time differs; None if there is none."""
        from fedlearn.report.comparing import parting_round, stored_runs

        found = parting_round(*stored_runs(self.first, self.second))
        return None if found is None else int(found)

    def __repr__(self) -> str:
        from fedlearn.report.comparing import compared

        console = Console(file=io.StringIO(), width=WIDTH, highlight=False)
        with console.capture() as text:
            console.print(compared(self.first, self.second))
        return text.get()

    def _repr_html_(self) -> str:
        from fedlearn.api.notebook_html import html_of
        from fedlearn.report.comparing import compared

        return html_of(compared(self.first, self.second))


def compare(a: Run | str | Path, b: Run | str | Path) -> Comparison:
    """Return what tells two runs apart: settings, environment, results, where their curves part, their SHA-256.

    Raises
    ------
    UsageError
        If one of them is no run.

    Examples
    --------
    >>> fedlearn.compare(run, run).same_bytes
    True
    """
    from fedlearn.report.comparing import stored_runs

    first, second = (Path(each if isinstance(each, str | Path) else each.folder).resolve() for each in (a, b))
    with as_called({}):
        stored_runs(first, second)
    return Comparison(first, second)
