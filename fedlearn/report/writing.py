"""Write the page, its figures and its tables into a folder, for ``fedlearn report``."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from fedlearn.core.errors import UsageError, printable, said
from fedlearn.plugins.extras import MissingExtra
from fedlearn.report.charts.client_charts import over_nodes
from fedlearn.report.charts.curves import curves, pareto
from fedlearn.report.charts.kinds import Chart, HeatMap
from fedlearn.report.charts.plots import FORMATS, USUAL, save
from fedlearn.report.charts.round_charts import all_reported, fates, phases
from fedlearn.report.charts.skew import skew_of
from fedlearn.report.folders import run_folders
from fedlearn.report.number_rows import node_rows
from fedlearn.report.page.analysis_section import survival, tables_of
from fedlearn.report.page.classes_section import confusions
from fedlearn.report.page.document import page_of
from fedlearn.report.page.sections import sections_of
from fedlearn.report.points import points_of
from fedlearn.report.run_tables import for_papers, points_table, rounds_table, runs_table
from fedlearn.report.stored import StoredRun, read_run
from fedlearn.report.tables import Table
from fedlearn.runs.analysis_answers import Answer, read_answer
from fedlearn.runs.checksums import write_report_checksums
from fedlearn.runs.file_names import ANALYSIS, WORTH
from fedlearn.runs.files import write_atomically
from fedlearn.runs.safe_reading import read_small

T = TypeVar("T")
FOLDER = "report"
PAGE = "index.html"


def write_report(
    paths: Sequence[Path], out: Path | None = None, *, figures: str = ",".join(USUAL), columns: str = ""
) -> tuple[Path, list[str]]:
    """Write page, figures and tables; return the path of the page, and a line for each problem.

    Parameters
    ----------
    paths
        Run folders, sweeps, or folders of run folders.
    out
        The folder; by default ``report`` inside a single path, or in the current folder for several.
    figures
        Formats of the figures, of ``png``, ``svg`` and ``pdf``, with commas between them.
    columns
        Columns of the tables of runs and of means, by name or title, with commas between them, in this order. Empty:
        all in CSV; for papers, in LaTeX and Markdown, `for_papers`.

    Raises
    ------
    UsageError
        If a path holds no run, or there is no such format or column.
    """
    formats = _formats(figures)
    runs = [read_run(name, folder) for name, folder in run_folders(paths).items()]
    tables = _tables(runs, columns)
    out = out or (paths[0] / FOLDER if len(paths) == 1 else Path(FOLDER))
    write_page(runs, title_of(paths), out)
    for table, of_paper in [*tables, *((each, each) for each in _of_analysis(runs, tables_of))]:
        _write_table(table, of_paper, out / "tables")
    write_atomically(out / "tables" / "rounds.csv", rounds_table(runs).as_csv().encode())
    (out / "figures").mkdir(exist_ok=True)
    problems = [problem for run in runs for problem in run.problems]
    for name, chart in _figures(runs) if formats else ():
        try:
            save(chart, out / "figures", re.sub(r"[^\w-]", "_", name), formats=formats)  # a column may have any name
        except MissingExtra as error:
            problems.append(f"the page is whole, but there are no figures as files: {error}")
            break
        except (ValueError, OverflowError, ArithmeticError) as error:  # of numbers that no figure can show
            problems.append(f"figure {printable(name)} cannot be drawn: {said(error)}")
    write_report_checksums(out)
    return out / PAGE, problems


def write_page(runs: Sequence[StoredRun], title: str, out: Path) -> None:
    """Write the page, with relative links to the raw files."""
    folders = {run.folder: _relative(run.folder, out) for run in runs}
    sections = sections_of(runs, title=title, link=lambda run, name: f"{folders[run.folder]}/{quote(name)}")
    write_atomically(out / PAGE, page_of(sections, title=title).encode())


def title_of(paths: Sequence[Path]) -> str:
    """Return the title of a page about some folders: titles of sweeps, names of other folders."""
    names = [printable(_sweep_title(path) or path.resolve().name) for path in paths[:3]]
    return ", ".join(names) + ("..." if len(paths) > 3 else "")


def _sweep_title(path: Path) -> str:
    try:
        return str(tomllib.loads(read_small(path / "sweep.toml").decode()).get("title", ""))
    except (OSError, ValueError, RecursionError):
        return ""


def _relative(path: Path, out: Path) -> str:
    return quote(os.path.relpath(path, out.resolve()).replace(os.sep, "/"))


def _formats(given: str) -> list[str]:
    names = [name.strip().lower() for name in given.split(",") if name.strip()]
    if unknown := [name for name in names if name not in FORMATS]:
        raise UsageError(f"--figures {said(unknown[0])}: there is no such format: {', '.join(FORMATS)}")
    return names


def _tables(runs: Sequence[StoredRun], columns: str) -> list[tuple[Table, Table]]:
    """Return the tables of runs and of means over seeds, each as it is for CSV and as it is for a paper."""
    whole = [runs_table(runs), points_table(points_of(runs))]
    names = [name.strip() for name in columns.split(",") if name.strip()]
    if not names:
        return [(table, for_papers(table)) for table in whole]
    known = {word: column.title for table in whole for column in table.columns for word in (column.name, column.title)}
    if unknown := [name for name in names if name not in known]:
        there = ", ".join(dict.fromkeys(column.name for table in whole for column in table.columns))
        raise UsageError(f"--columns {said(unknown[0])}: there is no such column: {there}")
    chosen = [table.with_columns(names) for table in whole]
    return list(zip(chosen, chosen, strict=True))


def _write_table(table: Table, of_paper: Table, folder: Path) -> None:
    write_atomically(folder / f"{table.key}.csv", table.as_csv().encode())
    write_atomically(folder / f"{table.key}.tex", of_paper.as_latex().encode())
    write_atomically(folder / f"{table.key}.md", of_paper.as_markdown().encode())


def _of_analysis(runs: Sequence[StoredRun], what: Callable[[Answer], Iterable[T]]) -> list[T]:
    """Return tables or charts of the answer of a single run; nothing of a file that the page says is spoiled."""
    with suppress(OSError, ValueError):
        files = (ANALYSIS, WORTH) if len(runs) == 1 else ()
        return [each for file in files if (found := read_answer(runs[0].folder, file)) for each in what(found)]
    return []


def _figures(runs: Sequence[StoredRun]) -> Iterator[tuple[str, Chart]]:
    """Yield every chart of the page with the name for its files."""
    points = points_of(runs)
    for chart in curves(points):
        yield chart.key, chart
    if (front := pareto(points)) is not None:
        yield front.key, front
    if len(runs) != 1 or not runs[0].rounds:
        return
    (run,) = runs
    yield "phases", phases(run)
    for chart in _of_analysis(runs, lambda found: filter(None, [survival(found)])):
        yield chart.key, chart
    if not all_reported(run):
        yield "fates", fates(run)
    for each in over_nodes(node_rows(run.folder)[0], run.metrics):
        yield each.key, each
    for matrix in confusions(run):
        yield matrix.key, matrix
    if isinstance(skew := skew_of(run), HeatMap):
        yield "skew", skew
