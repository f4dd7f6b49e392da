"""The commands that look at runs: report, compare, dashboard."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedlearn.core.errors import printable
from fedlearn.core.stopping import interrupted_code

DEFAULT_PORT = "8765"
Runs = Annotated[list[Path], typer.Argument(metavar="RUN_OR_SWEEP...", help="Run folders, sweeps, or folders of runs.")]


def report(
    runs: Runs,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Output folder \\[default: RUN/report; current folder for several runs]."),
    ] = None,
    figures: Annotated[str, typer.Option(metavar="F,F", help="Formats of the figures: png, svg, pdf.")] = "png,svg",
    columns: Annotated[
        str,
        typer.Option(
            metavar="C,C",
            help="Columns of the tables, by name or title \\[default: all; in LaTeX and Markdown no time, no SHA-256].",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Write a page that opens anywhere, its figures (PNG, SVG, PDF) and its tables (CSV, LaTeX, Markdown)."""
    from fedlearn.report.writing import write_report

    page, problems = write_report(runs, out, figures=figures, columns=columns)
    for problem in problems:
        typer.echo(f"note: {problem}", err=True)
    typer.echo(printable(str(page)))


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A run folder.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another.")],
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with the curves of both.")
    ] = None,
) -> None:
    """Print the differences of two runs: settings, environment, results, first different round, SHA-256."""
    from fedlearn.report.comparing import compared, write_comparison

    if html is not None:
        typer.echo(printable(str(write_comparison(a, b, html))))
    else:
        Console(highlight=False).print(compared(a, b))


def dashboard(
    runs: Runs,
    port: Annotated[
        str, typer.Option(metavar="[HOST:]PORT", help="Address; only on this machine unless a host is given.")
    ] = DEFAULT_PORT,
) -> None:
    """Serve the live page of running and ended runs, until Ctrl-C."""
    from fedlearn.report.dashboard import serve
    from fedlearn.report.folders import run_folders
    from fedlearn.report.serving import listening, url_of

    run_folders(runs)  # an error names a folder that is missing
    listener = listening(port, flag="--port")
    typer.echo(f"{url_of(listener)}  (Ctrl-C to end)")
    try:
        serve(runs, listener)
    except KeyboardInterrupt:
        sys.exit(interrupted_code())  # no error: so it ends usually
