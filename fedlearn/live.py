"""Watching a run: what its event log says, drawn in a terminal or printed as plain lines.

The view is fed by the log alone, so it is the same for every engine and for a run that somebody else started.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fedlearn.metrics import title_of
from fedlearn.rounds import COLUMNS

LOOK = 0.1  # seconds between looks at the log
SHOWN_ROUNDS = 10
PHASES = {
    "round-started": "selection",
    "selected": "configuration",
    "configured": "reporting",
    "evaluating": "evaluation",
    "backing-off": "waiting",
}
BOLD = ("accuracy", "mae")
ENDED = ("reported", "failed", "refused", "late")

Event = dict[str, Any]


class EventTail:
    """Reads a log that still grows: each event once, as soon as its line is complete."""

    def __init__(self, path: Path, begin: int = 0) -> None:
        self._path = path
        self._position = begin
        self._rest = b""

    def read(self) -> Iterator[Event]:
        """Yield what was appended since the last call; a line that a kill has cut short is left out."""
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._position)
            new = file.read()
            self._position += len(new)
            *lines, self._rest = (self._rest + new).split(b"\n")
            for line in lines:
                with suppress(ValueError, RecursionError):
                    event = json.loads(line)
                    if isinstance(event, dict) and "event" in event:
                        yield event


class RunView:
    """What is known of a run, event by event."""

    def __init__(self) -> None:
        self.about: Event = {}
        self.phase = "starting workers"
        self.round_number = 0
        self.attempt = 1
        self.cohort = 0
        self.nodes = dict.fromkeys(ENDED, 0)
        self.rows: deque[Event] = deque(maxlen=SHOWN_ROUNDS)
        self.committed = 0
        self.warning = ""
        self._committed_before = 0
        self._began = 0.0

    def take(self, event: Event) -> None:
        """Take in one event."""
        name = event["event"]
        self.phase = PHASES.get(name, self.phase)
        if name == "started":
            self.about = event
            self.committed = self._committed_before = event["committed"]
            self._began = event["time"]
        elif name == "round-started":
            self.round_number, self.attempt, self.cohort = event["round"], event["attempt"], 0
            self.nodes = dict.fromkeys(ENDED, 0)
        elif name == "configured":
            self.cohort = event["cohort"]
        elif name in ENDED:
            self.nodes[name] += 1
        elif name in ("abandoned", "too-few-ready"):
            self.warning = f"round {event['round']} attempt {event['attempt']} {name}: {event['reason']}"
        elif name == "committed":
            self.committed = event["round"]
            self.rows.append(event)
        elif name == "ended":
            self.phase = event["status"]

    @property
    def rounds(self) -> int:
        """Rounds to commit in all."""
        return int(self.about.get("rounds", 0))

    def seconds_left(self, now: float) -> float | None:
        """Return the seconds that the rest will take at the pace so far; None before the first round."""
        done = self.committed - self._committed_before
        if not done or not self.rounds:
            return None
        last = float(self.rows[-1]["time"])
        pace = (last - self._began) / done
        return max((self.rounds - self.committed) * pace - (now - last), 0.0)

    def times_smaller(self, row: Event) -> float | None:
        """Return a round's compression ratio: bytes of plain reports over bytes that came; None of ensembles."""
        plain = float(self.about.get("plain_bytes", 0)) * row["uploads"]
        if not self.about.get("plain_bytes", 1):
            return None
        return plain / row["bytes_up"] if row["bytes_up"] else 1.0

    @property
    def measured(self) -> list[str]:
        """Names of the columns that depend on the model, in their order."""
        known = {*COLUMNS, "time", "event", "round", "attempt"}
        return [name for name in (self.rows[-1] if self.rows else ()) if name not in known]


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
    """Return the live view."""
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
    smaller = ["smaller"] if averaged else []
    for title in ("round", "reported", *map(title_of, measured), "upload", *smaller, "seconds"):
        table.add_column(title, justify="right")
    for row in view.rows:
        reported = f"{row['reported']}/{row['cohort']}"
        table.add_row(
            str(row["round"]),
            reported if row["reported"] == row["cohort"] else f"[yellow]{reported}[/]",
            *(f"[bold green]{number(row[name])}[/]" if name in BOLD else number(row[name]) for name in measured),
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


def number(value: float | None) -> str:
    """Return a measured value for people.

    >>> number(0.48713), number(49325.123), number(None)
    ('0.4871', '49325.1', '-')
    """
    if value is None:
        return "-"
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.1f}"


def _seconds(row: Event) -> float:
    return float(row["selection_seconds"] + row["training_seconds"] + row["evaluation_seconds"])


def size(count: float) -> str:
    """Return a number of bytes for people, in powers of ten.

    >>> size(2_517_000)
    '2.52 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError


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


@contextmanager
def following(path: Path, begin: int, take: Callable[[Event], None]) -> Iterator[None]:
    """Call `take` with every event that is appended to a log, in a thread of its own, until the block ends."""
    stop = threading.Event()

    def follow() -> None:
        tail = EventTail(path, begin)
        while True:
            last = stop.is_set()
            for event in tail.read():
                take(event)
            if last:
                return
            stop.wait(LOOK)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
