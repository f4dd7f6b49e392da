"""Watching a run: what its event log says, drawn in a terminal or printed as plain lines.

The view is fed by the log alone, so it is the same for every engine and for a run that somebody else started.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fedlearn.report.numbers import number, size
from fedlearn.runs.log import Event, RunView, following


def headline(view: RunView) -> str:
    """Return one line on what is being run."""
    about = view.about
    if not about:
        return "fedlearn"
    return (
        f"{about['model']} on {about['dataset']} | {about['clients']} clients, {about['cohort']} a round | "
        f"{about['strategy']}, {about['codec']} | seed {about['seed']}"
    )


def plain_line(view: RunView, row: Event) -> str:
    """Return one committed round as a line that can be grepped."""
    parts = {
        "round": f"{row['round']}/{view.rounds}",
        "reported": f"{row['reported']}/{row['cohort']}",
        "failed": row["failed"],
        "refused": row["refused"],
        "late": row["late"],
        **{name: number(row[name]) for name in view.measured},
        "bytes_up": row["bytes_up"],
        **({} if (ratio := view.times_smaller(row)) is None else {"compression_ratio": f"{ratio:.2f}"}),
        "seconds": f"{_seconds(row):.2f}",
    }
    return " ".join(f"{name}={value}" for name, value in parts.items())


def drawing(view: RunView, now: float) -> RenderableType:
    """Return the live view: what is run, notices, the last rounds, how far it is; `now` in seconds since the epoch."""
    parts: list[RenderableType] = [Text(headline(view), style="bold", overflow="ellipsis", no_wrap=True)]
    if view.about.get("notice"):
        parts.append(Text(view.about["notice"], style="bold yellow"))
    if view.rows:
        parts.append(_table(view))
    parts.append(_status(view, now))
    if view.warning:
        parts.append(Text(view.warning, style="yellow"))
    return Group(*parts)


def _table(view: RunView) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    measured, averaged = view.measured, view.times_smaller(view.rows[-1]) is not None
    metrics = view.metrics_of(measured)
    bold = metrics.best_by
    smaller = ["smaller"] if averaged else []
    for title in ("round", "reported", *(metrics.of(name).title for name in measured), "upload", *smaller, "seconds"):
        table.add_column(title, justify="right")
    for row in view.rows:
        reported = f"{row['reported']}/{row['cohort']}"
        table.add_row(
            str(row["round"]),
            reported if row["reported"] == row["cohort"] else f"[yellow]{reported}[/]",
            *(f"[bold green]{number(row[name])}[/]" if name == bold else number(row[name]) for name in measured),
            size(row["bytes_up"]),
            *([f"{view.times_smaller(row):.1f}x"] if averaged else []),
            f"{_seconds(row):.1f}",
        )
    return table


def _status(view: RunView, now: float) -> Table:
    """Return the line with the bar: which round, which phase, how many nodes, how long still."""
    done = sum(view.nodes.values())
    text = f"round {view.round_number}/{view.rounds}  {view.phase}" if view.round_number else view.phase
    if view.attempt > 1:
        text += f" (attempt {view.attempt})"
    if view.cohort:
        text += f"  {done}/{view.cohort} nodes"
        text += "".join(f", {count} {fate}" for fate, count in view.nodes.items() if count and fate != "reported")
    left = view.seconds_left(now)
    eta = "" if left is None else f"ETA {int(left) // 60}:{int(left) % 60:02d}"
    share = done / view.cohort if view.cohort and view.phase in ("reporting", "evaluation") else 0.0
    line = Table.grid(padding=(0, 2))
    total = max(view.rounds, 1)
    line.add_row(ProgressBar(total, min(view.committed + share, total), width=24), Text(text), Text(eta, style="cyan"))
    return line


def _seconds(row: Event) -> float:
    return float(row["selection_seconds"] + row["training_seconds"] + row["evaluation_seconds"])


@contextmanager
def watched(events: Path, console: Console) -> Iterator[None]:
    """Show the run whose log this is, as long as the block lasts."""
    view = RunView()
    begin = events.stat().st_size if events.exists() else 0
    if console.is_terminal:
        live = Live(console=console, refresh_per_second=8, get_renderable=lambda: drawing(view, time.time()))
        with live, following(events, begin, view.take):
            yield
        return
    with following(events, begin, lambda event: _print(view, event, console)):
        yield


def _print(view: RunView, event: Event, console: Console) -> None:
    warning = view.warning
    view.take(event)
    lines = []
    if event["event"] == "started":
        lines.append(headline(view))
    if event["event"] == "committed":
        lines.append(plain_line(view, event))
    if view.warning != warning:
        lines.append(view.warning)
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True, markup=False)
