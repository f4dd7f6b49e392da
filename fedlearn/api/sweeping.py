"""`fedlearn.sweep`: what ``fedlearn sweep`` does, as a function."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from fedlearn.api.given import KEYWORDS, as_value, flat_settings
from fedlearn.api.isolated_call import guest
from fedlearn.api.keywords import Keywords
from fedlearn.api.run_frames import frame_of
from fedlearn.api.running import python_says_how_to_go_on
from fedlearn.api.spelled import as_called
from fedlearn.commands.shared import Interrupted
from fedlearn.config.fields import as_duration, seconds_in
from fedlearn.config.load import flat_from_file
from fedlearn.config.names import flags
from fedlearn.core.errors import UsageError, quoted
from fedlearn.core.stopping import begin, signals_caught
from fedlearn.plugins.own_packages import claimed
from fedlearn.runs.safe_reading import check_path
from fedlearn.sweeps.sweep_plan import axis_of

if TYPE_CHECKING:
    import pandas as pd

    from fedlearn.sweeps.sweep_plan import Axes


class Sweep:
    """A sweep in its folder; each property reads the files when it is asked for.

    Parameters
    ----------
    folder : Path
        The folder of the sweep; its run folders are in ``runs`` below it, which `fedlearn.runs` lists.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def runs(self) -> pd.DataFrame:
        """One row for each run: its axes and seed, its results (runs.csv)."""
        return frame_of(self.folder / "runs.csv", "no run has ended")

    @property
    def points(self) -> pd.DataFrame:
        """One row for each combination of the axes: means and standard deviations over seeds (points.csv)."""
        return frame_of(self.folder / "points.csv", "no run has ended")

    @property
    def best(self) -> dict[str, Any]:
        """The settings of the best point by their dotted names, for ``fedlearn.run(settings=sweep.best)`` (best.toml).

        Raises
        ------
        UsageError
            If no point was chosen, as where nothing varies but the seed.
        """
        if not (self.folder / "best.toml").exists():
            raise UsageError(f"{self.folder}: no point was chosen: vary a setting whose runs have public test rows")
        return flat_from_file(self.folder / "best.toml")

    @property
    def page(self) -> Path:
        """The page with the figures and tables of all runs."""
        return self.folder / "report" / "index.html"

    def __repr__(self) -> str:
        runs = self.runs
        return f"<Sweep {self.folder}: {int((runs['status'] == 'completed').sum())} of {len(runs)} runs completed>"

    def _repr_html_(self) -> str:
        return str(self.points.to_html(index=False, na_rep=""))


def sweep(
    plan: str | Path | None = None,
    *,
    vary: Mapping[str, Sequence[Any]] | None = None,
    seeds: Sequence[int] = (),
    clients: int | None = None,
    data: Any = None,
    model: Any = None,
    settings: Mapping[str, Any] | None = None,
    only: Mapping[str, Sequence[Any]] | None = None,
    quick: bool = False,
    halving: bool = False,
    progress: bool = True,
    **keywords: Unpack[Keywords],
) -> Sweep:
    """Run every combination of some settings with every seed, and return the sweep with its results.

    The sweep is the one that ``fedlearn sweep`` makes of the same arguments: the same folder, the same bytes. The same
    call resumes a sweep that was stopped; more seeds or values may be added.

    Parameters
    ----------
    plan : path, optional
        A TOML file with base settings, axes and seeds; the other arguments win over it.
    vary : mapping, optional
        Setting -> its values, as ``{"training.lr": [0.1, 0.05]}``; keywords of `fedlearn.run`, such as ``lr``, and
        objects work, too. All settings are combined.
    seeds : list of int, optional
        Each combination is run with each seed; seed 1 unless given.
    only : mapping, optional
        Setting -> those of its values that are run now.
    quick : bool, default=False
        Take the ``[quick]`` table of the plan.
    halving : bool, default=False
        Run all points for a few rounds, and the better half for twice as many, until one has all its rounds.
    progress : bool, default=True
        Print a line for each run that ends, and the table of results.
    clients, data, model, settings, **keywords
        As of `fedlearn.run`, for all runs. ``out`` is the folder of the sweep: by default ``runs/NAME`` of the plan, or
        of a hash of the arguments.

    Returns
    -------
    Sweep
        Its runs, its points, its best settings, its page.

    Raises
    ------
    UsageError
        If a setting is wrong, or nothing varies.
    RunFailed
        If a run has failed; the others are made before.

    Examples
    --------
    >>> given = {"clients": 3, "data": "digits", "model": "linear", "rounds": 1, "engine": "inline"}
    >>> rates = fedlearn.sweep(vary={"lr": [0.1, 0.05]}, seeds=[1], progress=False, **given)
    >>> rates.points["training.lr"].tolist()
    [0.1, 0.05]
    """
    called: dict[str, Any] = {"clients": clients, "data": data, "model": model, **keywords}
    out = called.pop("out", None)
    begin()
    shown = nullcontext() if progress else redirect_stdout(io.StringIO())
    with as_called(called), guest(), claimed(), signals_caught(), shown:
        from fedlearn.commands.sweep_once import folder_of, planned_sweep, sweep_once

        base = _base(called, settings or {})
        limit = seconds_in(as_duration(base.pop("stop.time_limit", "")))
        file = None if plan is None else Path(plan)
        planned = planned_sweep(file, base=base, axes=_axes(vary or {}), seeds=seeds, quick=quick)
        folder = folder_of(file, planned, quick=quick) if out is None else Path(out)
        check_path(folder, "--out")
        wanted = planned.chosen([f"{_name(axis)}={value}" for axis, those in (only or {}).items() for value in those])
        with python_says_how_to_go_on("the same call resumes from here", is_stored=folder.exists):
            try:
                sweep_once(planned, folder, wanted=wanted, limit=limit, halving=halving)
            except KeyboardInterrupt as stop:
                raise Interrupted(stop, "") from None
    return Sweep(folder.resolve())


def _base(called: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of all runs as the command has them: those with flags as texts, in the order of its help."""
    given = flat_settings(called, {})
    of_flags = {name: _as_flag(given.pop(name)) for name in flags() if name in given}
    return of_flags | given | flat_settings({}, settings)


def _as_flag(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _axes(vary: Mapping[str, Sequence[Any]]) -> Axes:

    for word, values in vary.items():
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise UsageError(f"vary: {word} = {quoted(values)}: give a list of values, as {{{word!r}: [0.1, 0.05]}}")
    named = {_name(word): values for word, values in vary.items()}
    return {name: axis_of(name, [as_value(name, value) for value in values]) for name, values in named.items()}


def _name(word: str) -> str:
    return KEYWORDS.get(word, word)
