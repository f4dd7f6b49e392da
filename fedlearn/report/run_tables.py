"""Make the tables of runs, of points and of rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from fedlearn.core.metric import Metric
from fedlearn.core.metrics import COUNTS_IN
from fedlearn.report.choosing import BETTER_BY, choice_of
from fedlearn.report.numbers import (
    count,
    count_spread,
    number_spread,
    plain,
    ratio,
    ratio_spread,
    seconds,
    seconds_spread,
    size,
    size_spread,
    text_of,
)
from fedlearn.report.points import (
    Measure,
    Point,
    best_value,
    compression_ratio,
    counts_in,
    differing,
    is_compressed,
    metrics_of,
    seconds_of,
    shown,
    value_of,
)
from fedlearn.report.run_traffic import measured_in
from fedlearn.report.stored import StoredRun
from fedlearn.report.tables import Column, Table
from fedlearn.report.words import readable, short_names, word


class Result(NamedTuple):
    """A number of a run: a tile on the page of one run, and a column in the tables of many."""

    column: Column
    measure: Measure  # None of a run that has none
    note: Callable[[StoredRun], str]  # below the tile


def _rounds_in_words(run: StoredRun) -> str:
    each = seconds(seconds_of(run) / len(run.rounds))
    return "1 round" if len(run.rounds) == 1 else f"{len(run.rounds)} rounds, {each} each"


RESULTS = (Result(Column("seconds", "time", seconds, spread_form=seconds_spread), seconds_of, _rounds_in_words),)
"""Results behind scores and bytes. A new one is a line here."""
NOT_IN_PAPERS = ("seconds", "model_sha256")
SHA_SHOWN = 10  # digits of a SHA-256 on the page; files have all of them


def _measures(runs: Sequence[StoredRun]) -> list[tuple[Column, Measure]]:
    """Return the columns of results that all tables of runs share, each with its function of a run."""
    metrics = metrics_of(runs)
    measures: list[tuple[Column, Measure]] = []
    for metric in metrics.results:
        if all(run.latest(metric.name) is None for run in runs):
            continue  # only clients have measured it
        measures.append((column_of(metric), partial(StoredRun.latest, name=metric.name)))
        if metric is metrics.headline:
            measures.append((column_of(metric, best=True), partial(best_value, metric=metric)))
    smaller = [(Column("compression_ratio", "smaller", ratio, spread_form=ratio_spread), compression_ratio)]
    return [
        *measures,
        (Column("bytes_up", "uploaded", size, spread_form=size_spread), lambda run: run.sent("bytes_up")),
        *(smaller if any(map(is_compressed, runs)) else ()),
        (Column("bytes_down", "downloaded", size, spread_form=size_spread), lambda run: run.sent("bytes_down")),
        *measured_in(runs),
        *((each.column, each.measure) for each in RESULTS if any(each.measure(run) is not None for run in runs)),
    ]


def column_of(metric: Metric, *, best: bool = False) -> Column:
    """Return the column of a metric, or of its best value: counts are whole numbers there, other values have digits."""
    name, title = (f"best_{metric.name}", f"best {metric.title}") if best else (metric.name, metric.title)
    spread_form = count_spread if metric.is_count else number_spread
    return Column(name, title, partial(text_of, metric), spread_form=spread_form)


def _words_of_losses(runs: Sequence[StoredRun]) -> list[Column]:
    """Return the column of the unit of a privacy loss, if any of the runs has one: no table may lack it then."""
    loss = metrics_of(runs).privacy_loss
    return [Column(f"{loss.name}{COUNTS_IN}", f"{loss.title} counts in", str, numeric=False)] if loss else []


def runs_table(runs: Sequence[StoredRun]) -> Table:
    """Return the table of runs, one row each: its results, and the settings that tell the run apart."""
    names, measures = differing(runs), _measures(runs)
    lost = [name for name in ("failed", "refused", "late") if any(run.total(name) for run in runs)]
    said = _words_of_losses(runs)
    short = short_names(names, [column.title for column, _ in measures])
    columns = (
        Column("run", "run", readable, numeric=False),
        Column("status", "status", str, numeric=False),
        *(column for column, _ in measures),
        Column("rounds", "rounds", str),
        *(Column(name, word(name), count) for name in lost),
        *(Column(name, short[name], shown, numeric=False) for name in names),
        *said,
        Column("model_sha256", "SHA-256", lambda sha: sha[:SHA_SHOWN], numeric=False),
    )
    rows = [
        (
            run.name,
            run.state_in_words,
            *(measure(run) for _, measure in measures),
            len(run.rounds),
            *(run.total(name) for name in lost),
            *(value_of(run, name) for name in names),
            *(counts_in([run]) or None for _ in said),
            sha_of(run),
        )
        for run in runs
    ]
    return Table("runs", "Runs", columns, tuple(rows))


def for_papers(table: Table) -> Table:
    """Return a table of runs or points as a paper has it: without time and SHA-256, without what is all the same.

    Settings stay; a column without a value goes, as do the status of runs that have all completed, and the number of
    rounds or seeds that is the same in each row.
    """
    values = {column.name: {row[place] for row in table.rows} for place, column in enumerate(table.columns)}
    alike = [name for name in ("status", "rounds", "seeds") if len(values.get(name, ())) == 1 and len(table.rows) > 1]
    empty = [name for name, cells in values.items() if cells == {None}]
    return table.without_columns([*NOT_IN_PAPERS, *alike, *empty])


def sha_of(run: StoredRun) -> str | None:
    """Return the SHA-256 of the final model; None for a run that has not ended."""
    return str(run.summary["model_sha256"]) if run.status != "unfinished" and "model_sha256" in run.summary else None


def points_table(points: Sequence[Point]) -> Table:
    """Return the table of points, one row for each choice of settings: means over its seeds."""
    runs = [run for point in points for run in point.runs]
    measures, said = _measures(runs), _words_of_losses(runs)
    choice = choice_of(points)
    apart = choice.differences if choice is not None and any(choice.differences) else ()
    columns = (
        Column("point", "settings", str, numeric=False),
        Column("seeds", "seeds", str),
        *(c for c, _ in measures),
        *([Column("difference", BETTER_BY, str, numeric=False)] if apart else ()),
        *said,
    )
    rows = [
        (
            p.label,
            len(p.counted),
            *(p.spread(measure) for _, measure in measures),
            *((found.text() if (found := apart[place]) else None,) if apart else ()),
            *(counts_in(p.runs) for _ in said),
        )
        for place, p in enumerate(points)
    ]
    return Table("points", "Means over seeds", columns, tuple(rows))


def rounds_table(runs: Sequence[StoredRun]) -> Table:
    """Return the table of rounds, one row for each run and round: all columns of metrics.csv."""
    names = list(dict.fromkeys(name for run in runs for row in run.rounds for name in row))
    of = metrics_of(runs).of
    said = _words_of_losses(runs)
    columns = (Column("run", "run", str, numeric=False), *(Column(name, of(name).title, str) for name in names), *said)
    rows = [
        (run.name, *(plain(row.get(name)) for name in names), *(counts_in([run]) for _ in said))
        for run in runs
        for row in run.rounds
    ]
    return Table("rounds", "Rounds", columns, tuple(rows))
