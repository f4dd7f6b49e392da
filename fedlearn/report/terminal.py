"""Show the progress of a run in a terminal: drawn live, or printed as plain lines.

The view is made of the event log alone, so it is the same for every engine, and for a run of another process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fedlearn.core.metrics import COUNTS_IN
from fedlearn.report.numbers import SMALLER, size, text_of
from fedlearn.runs.log import Event, RunView, following

GAP = 2  # blanks between the columns of a table
SHORTEST_BAR, LONGEST_BAR = 4, 24


def headline(view: RunView) -> str:
    """Return one line on the settings of the run."""
    about = view.about
    if not about:
        return "fedlearn"
    rate = f" lr {about['learning_rate']} |" if about.get("learning_rate") else ""
    return (
        f"{about['model']} on {about['dataset']} | {about['clients']} clients, {about['cohort']} a round | "
        f"{about['strategy']}, {about['codec']} |{rate} seed {about['seed']}"
    )


def clock(seconds: float) -> str:
    """Return seconds as hours, minutes and seconds.

    >>> clock(83.9), clock(36_000)
    ('1:23', '10:00:00')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def plain_line(view: RunView, row: Event) -> str:
    """Return a committed round as one line of name=value pairs; ``left`` is the time left at the pace so far."""
    metrics = view.metrics_of(view.measured)
    parts = {
        "round": f"{row['round']}/{view.rounds}",
        "reported": f"{row['reported']}/{row['cohort']}",
        "failed": row["failed"],
        "refused": row["refused"],
        "late": row["late"],
        **{name: metrics.in_words(name, text_of(metrics.of(name), row[name])) for name in view.measured},
        "bytes_up": row["bytes_up"],
        **({} if (ratio := view.times_smaller(row)) is None else {"compression_ratio": f"{ratio:.2f}"}),
        "seconds": f"{_seconds(row):.2f}",
        **({"left": clock(left)} if (left := view.seconds_left(row["time"])) else {}),
    }
    return " ".join(f"{name}={value}" for name, value in parts.items())


def drawing(view: RunView, now: float) -> RenderableType:
    """Return the live view: settings, notices, the last rounds, progress; `now` is in seconds since the epoch."""
    parts: list[RenderableType] = [Text(headline(view), style="bold", overflow="ellipsis", no_wrap=True)]
    if view.about.get("notice"):
        parts.append(Text(view.about["notice"], style="bold yellow"))
    if view.rows:
        parts.append(_Rounds(view))
    for name, words in view.metrics_of(view.measured).counts_in.items():
        parts.append(Text(f"{name.removesuffix(COUNTS_IN)}: {words}", style="dim"))
    parts.append(_Status(view, now))
    if view.warning:
        parts.append(Text(view.warning, style="yellow"))
    return Group(*parts)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A column of the table of rounds: its title and its cells."""

    title: str
    cells: tuple[Text, ...]

    @property
    def width(self) -> int:
        return max(len(self.title), *map(len, self.cells))


@dataclass(frozen=True, slots=True)
class _Rounds:
    """The table of the last rounds; if the terminal is too narrow, the least important columns are left out."""

    view: RunView

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = self._columns()
        metrics = self.view.metrics_of(self.view.measured)
        measured = [metric.name for metric in metrics.by_interest]
        by_interest = ["round", metrics.best_by, "reported", "upload", "seconds", *measured, *columns]
        kept: list[str] = []
        for name in dict.fromkeys(name for name in by_interest if name in columns):  # the first are kept
            widths = [columns[each].width for each in (*kept, name)]
            if sum(widths) + GAP * (len(widths) - 1) <= options.max_width:
                kept.append(name)
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, GAP, 0, 0))
        shown = [column for name, column in columns.items() if name in kept]
        for column in shown:
            table.add_column(column.title, justify="right", no_wrap=True)
        for row in zip(*(column.cells for column in shown), strict=True):
            table.add_row(*row)
        yield table

    def _columns(self) -> dict[str, _Shown]:
        """Return name -> column, from left to right."""
        view, rows = self.view, self.view.rows
        measured, ratios = view.measured, [view.times_smaller(row) for row in rows]
        metrics = view.metrics_of(measured)
        columns = {
            "round": _Shown("round", tuple(Text(str(row["round"])) for row in rows)),
            "reported": _Shown("reported", tuple(map(_reported, rows))),
        }
        for name in measured:
            style = "bold green" if name == metrics.best_by else ""
            metric = metrics.of(name)
            cells = tuple(Text(text_of(metric, row[name]), style=style) for row in rows)
            columns[name] = _Shown(metric.axis_title, cells)
        columns["upload"] = _Shown("upload", tuple(Text(size(row["bytes_up"])) for row in rows))
        known = [ratio for ratio in ratios if ratio is not None]
        if known and (view.about.get("codec") != "identity" or max(known) >= SMALLER):
            columns["smaller"] = _Shown("smaller", tuple(Text(f"{ratio:.1f}x") for ratio in known))
        columns["seconds"] = _Shown("seconds", tuple(Text(f"{_seconds(row):.1f}") for row in rows))
        return columns


def _reported(row: Event) -> Text:
    return Text(f"{row['reported']}/{row['cohort']}", style="" if row["reported"] == row["cohort"] else "yellow")


@dataclass(frozen=True, slots=True)
class _Status:
    """The line with the progress bar: round, phase, numbers of nodes, time left."""

    view: RunView
    now: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        view = self.view
        done = sum(view.nodes.values())
        text = f"round {view.round_number}/{view.rounds}  {view.phase}" if view.round_number else view.phase
        if view.attempt > 1:
            text += f" (attempt {view.attempt})"
        if view.cohort:
            text += f"  {done}/{view.cohort} nodes"
            text += "".join(f", {count} {fate}" for fate, count in view.nodes.items() if count and fate != "reported")
        left = view.seconds_left(self.now)
        eta = "" if left is None else f"ETA {clock(left)}"
        share = done / view.cohort if view.cohort and view.phase in ("reporting", "evaluation") else 0.0
        total = max(view.rounds, 1)
        room = options.max_width - len(text) - len(eta) - 2 * GAP
        cells: list[RenderableType] = [Text(text, no_wrap=True, overflow="ellipsis"), Text(eta, style="cyan")]
        if room >= SHORTEST_BAR:
            cells.insert(0, ProgressBar(total, min(view.committed + share, total), width=min(room, LONGEST_BAR)))
        line = Table.grid(padding=(0, GAP))
        line.add_row(*cells)
        yield line


def _seconds(row: Event) -> float:
    return float(row["selection_seconds"] + row["training_seconds"] + row["evaluation_seconds"])


@contextmanager
def watched(events: Path, console: Console) -> Iterator[None]:
    """Show the progress of the run with this event log as long as the block lasts."""
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
