"""``fedlearn runs``: list runs, and the results of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedlearn.commands.completing import assignments_like
from fedlearn.config import flat_from_assignments
from fedlearn.config.names import hint_at, setting_names
from fedlearn.core.errors import UsageError, said
from fedlearn.plugins.registry import did_you_mean

if TYPE_CHECKING:
    from fedlearn.report.stored import StoredRun

STATE = "state"
ORDERS = ("name", STATE, "rounds", "score", "upload", "seconds")


def runs(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FOLDER...]", help="Run folders, sweeps, or folders of runs \\[default: runs]."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="Only those of this setting, or of state=completed, failed or unfinished; may be "
            "repeated.", autocompletion=assignments_like,
        ),
    ] = None,
    sort: Annotated[
        str,
        typer.Option(
            metavar="KEY", help=f"By {', '.join(ORDERS)} (best first), or any setting.",
            autocompletion=lambda incomplete: [name for name in ORDERS if name.startswith(incomplete)],
        ),
    ] = "name",
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON, with their summaries.")] = False,
) -> None:  # fmt: skip
    """List runs: state, data, model, rounds, headline metric, the model's SHA-256.

    FOLDER is a run folder, a sweep, or a folder of runs; runs/ unless given.
    """
    from fedlearn.report.folders import run_folders
    from fedlearn.report.stored import read_run

    conditions = [_condition(each) for each in where or []]
    key = _order(sort)
    found = [read_run(name, folder) for name, folder in run_folders(folders or [Path("runs")]).items()]
    chosen = sorted((run for run in found if all(holds(run) for holds in conditions)), key=key)
    if as_json:
        print(json.dumps([_plain(run) for run in chosen], indent=2))
    else:
        _show(chosen, of=len(found))


def _condition(text: str) -> Callable[[StoredRun], bool]:
    """Return a test of runs: whether a run has the value that ``KEY=VALUE`` names."""
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--where {said(text)}: write it as key=value, for example --where data.partition=dirichlet")
    if name == STATE:
        return lambda run: run.status == value
    _check_setting(name, "--where", [STATE])
    ((_, wanted),) = flat_from_assignments([text]).items()
    return lambda run: run.settings.get(name) == wanted or str(run.settings.get(name)) == value


def _check_setting(name: str, flag: str, others: Sequence[str]) -> None:
    if name not in setting_names():
        near = did_you_mean(name, others) or hint_at(name)
        raise UsageError(f"{flag} {said(name)}: there is no such setting{near}; it also takes {', '.join(others)}")


def _order(name: str) -> Callable[[StoredRun], Any]:
    """Return the key by which runs are sorted; a run without such a value comes last."""
    from fedlearn.report.points import seconds_of

    if name == "score":
        return _place
    if name in ORDERS:
        values: dict[str, Callable[[StoredRun], Any]] = {
            "name": lambda run: run.name,
            STATE: lambda run: run.status,
            "rounds": lambda run: len(run.rounds),
            "upload": lambda run: run.total("bytes_up"),
            "seconds": seconds_of,
        }
        return values[name]
    _check_setting(name, "--sort", ORDERS)

    def by_setting(run: StoredRun) -> tuple[bool, float, str]:
        value = run.settings.get(name)
        return value is None, value if isinstance(value, int | float) else 0.0, str(value)

    return by_setting


def _place(run: StoredRun) -> tuple[bool, str, float]:
    """Return the key that sorts runs by their headline metric, the best first, metric by metric."""
    metric = run.metrics.headline
    value = run.latest(metric.name) if metric else None
    if metric is None or value is None:
        return True, "", 0.0
    return False, metric.name, value if metric.better == "down" else -value


def _show(chosen: Sequence[StoredRun], *, of: int) -> None:
    from fedlearn.report.numbers import text_of
    from fedlearn.report.run_tables import SHA_SHOWN, sha_of
    from fedlearn.report.tables import Table

    rows = []
    for run in chosen:
        metric = run.metrics.headline or next((m for m in run.metrics.results if m.is_result), None)
        score = f"{metric.axis_title} {text_of(metric, run.latest(metric.name))}" if metric else "-"
        planned = run.settings.get("rounds.total", "?")
        about = (run.settings.get("data.dataset", "?"), run.settings.get("model.name", "?"))
        rounds = f"{len(run.rounds)}/{planned}"
        rows.append((run.name, run.state_in_words, *map(str, about), rounds, score, (sha_of(run) or "-")[:SHA_SHOWN]))
    left = f"{len(chosen)} of {of} runs" if len(chosen) < of else f"{of} runs" if of > 1 else "1 run"
    heads = ("run", "state", "data", "model", "rounds", "score", "SHA-256")
    Table.of_texts("runs", left, heads, rows, words=len(heads)).show()


def _plain(run: StoredRun) -> dict[str, Any]:
    """Return what ``--json`` prints of a run."""
    metric = run.metrics.headline
    return {
        "name": run.name,
        "folder": str(run.folder),
        "state": run.status,
        "reason": run.reason,
        "rounds": len(run.rounds),
        "headline": {"metric": metric.name, "value": run.latest(metric.name)} if metric else None,
        "settings": dict(run.settings),
        "summary": dict(run.summary),
        "problems": list(run.problems),
    }
