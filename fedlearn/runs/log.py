"""Write and read the log of a run: one event a line, as a JSON object."""

from __future__ import annotations

import errno
import json
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from fedlearn.core.clock import Clock
from fedlearn.core.errors import UsageError
from fedlearn.core.metrics import Metrics, declared
from fedlearn.runs.files import storing
from fedlearn.runs.history import COLUMNS
from fedlearn.runs.safe_reading import LONGEST_TEXT, cleaned, open_regular, open_to_append

LOOK = 0.1  # seconds between looks at the log
SHOWN_ROUNDS = 10
PHASES = {
    "round-started": "selection",
    "selected": "configuration",
    "configured": "reporting",
    "collecting": "reporting",
    "evaluating": "evaluation",
    "backing-off": "waiting",
}
ENDED = ("reported", "failed", "refused", "late")
OF_EVENTS = ("time", "virtual", "event", "round", "attempt")  # columns of events that no metric can have

Event = dict[str, Any]
FLUSH = 0.1  # seconds between flushes of events about single nodes; others are flushed at once
PIECE = 1 << 22  # bytes that are read at a time
LONGEST_LINE = 1 << 20  # bytes of a line
MOST_WASTED = 1 << 27  # bytes of a log that are no events; a kill leaves less than a line of them


class EventLog:
    """Appends events to a file.

    Every event has ``time`` (seconds since 1970) and ``event``; most have ``round`` and ``attempt``. Events about one
    node have ``node``, ``partition`` and, if a message was sent, ``bytes``; events about a failure have ``reason``. In
    virtual time every event has ``virtual``, in seconds since the run began.

    Raises
    ------
    UsageError
        If the path is no regular file.
    RunFailed
        From its methods, if the file cannot be written.
    """

    def __init__(self, path: Path, virtual: Clock | None = None) -> None:
        if path.is_symlink() or (path.exists() and not path.is_file()):  # a pipe would be waited for
            raise UsageError(f"{path} is no regular file: move it away, or name another folder")
        self._path = path
        self._virtual = virtual
        self._file = open_to_append(path)
        if _ends_within_a_line(path):  # a kill has cut the last event short
            self._file.write(b"\n")
        self._flushed = 0.0

    def write(self, event: str, **fields: object) -> None:
        """Append one event."""
        now = time.time()
        when = {"virtual": round(self._virtual.now(), 6)} if self._virtual else {}
        line = json.dumps({"time": round(now, 3), **when, "event": event, **fields}).encode() + b"\n"
        with storing(self._path.parent, self._path):
            self._file.write(line)
            if "node" not in fields or now - self._flushed > FLUSH:
                self._file.flush()
                self._flushed = now

    def flush(self) -> None:
        """Hand the written events to the operating system."""
        with storing(self._path.parent, self._path):
            self._file.flush()
        self._flushed = time.time()

    def sync(self) -> None:
        """Have the disk hold the written events: they survive a power failure."""
        self.flush()
        with storing(self._path.parent, self._path):
            os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        """Return the log."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        with storing(self._path.parent, self._path):
            self._file.close()


def _ends_within_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size == 0:
            return False
        file.seek(size - 1)
        return file.read(1) != b"\n"


EVENT = b'"event": "'  # before the kind of an event, in its line
LAST_LINE = 1 << 14  # bytes of the last event at most


class EventTail:
    """A reader of a log that still grows: it yields each event once, as soon as the event's line is complete.

    The texts of events are made printable and short. A line that is no event, or longer than `LONGEST_LINE`, is left
    out. After `MOST_WASTED` bytes of such lines reading stops, so that a file without an end, as of zeros, cannot keep
    the reader.
    """

    def __init__(self, path: Path, begin: int = 0) -> None:
        self._path = path
        self._position = begin
        self._rest = b""
        self._wasted = 0

    def read(self, *, without: re.Pattern[bytes] | None = None) -> Iterator[Event]:
        """Yield the events that were appended since the last call; a line that a kill has cut short is left out.

        Parameters
        ----------
        without
            The lines that it finds are passed over unread, such as those of single nodes: see `other_events`.

        Raises
        ------
        OSError
            If the file exists and is no regular file that can be read, or too much of it is no events.
        """
        with suppress(FileNotFoundError), open_regular(self._path) as file:
            file.seek(self._position)
            while new := self._piece(file):
                self._position += len(new)
                lines, end, rest = (self._rest + new).rpartition(b"\n")
                self._rest = rest if len(rest) <= LONGEST_LINE else b"\0"  # which no JSON begins with
                self._wasted += len(rest) - len(self._rest)
                lines += end
                for line in (without.sub(b"", lines) if without else lines).split(b"\n"):
                    event = _event_of(line)
                    if event is None:
                        self._wasted += len(line)
                    else:
                        yield event

    def _piece(self, file: BinaryIO) -> bytes:
        new = file.read(PIECE)
        if new and self._wasted > MOST_WASTED:
            reason = f"{self._wasted} bytes of it are no events: the rest is not read"
            raise OSError(errno.EINVAL, reason, str(self._path))
        return new


def other_events(*names: str) -> re.Pattern[bytes]:
    r"""Return what finds lines, as `EventLog` writes them, of events of all kinds but these.

    >>> other_events("ended").sub(b"", b'{"time": 1.0, "event": "ready"}\n{"time": 2.0, "event": "ended"}\n')
    b'{"time": 2.0, "event": "ended"}\n'
    """
    kinds = "|".join(map(re.escape, names)).encode()
    line = rb'\{"time": [0-9.]+, (?:"virtual": [-+0-9.e]+, )?%b(?!(?:%b)")[^\n]*+\n' % (EVENT, kinds)
    return re.compile(b"^(?:" + line + b")++", re.MULTILINE)


def has_ended(path: Path) -> bool:
    """Return whether the last line of a log says that its run has ended; OSError as of `open_regular`."""
    with open_regular(path) as file:
        file.seek(max(file.seek(0, os.SEEK_END) - LAST_LINE, 0))
        return EVENT + b'ended"' in file.read(LAST_LINE).rstrip(b"\n").rpartition(b"\n")[2]


def _event_of(line: bytes) -> Event | None:
    """Return the event that a line holds, with texts that are printable; None if it holds none."""
    with suppress(ValueError, RecursionError):
        event = json.loads(line)
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            return event if _is_plain(line) else dict(cleaned(event))
    return None


def _is_plain(line: bytes) -> bool:
    """Return whether `cleaned` would leave a line of JSON as it is."""
    flat = line.count(b"{") == 1 and b"[" not in line
    return flat and len(line) <= LONGEST_TEXT and line.isascii() and not (b"\\" in line or b"\x7f" in line)


class RunView:
    """The progress of a run, as far as its events tell it."""

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
        self.declared: Metrics | None = None  # by the run itself; None of a run of an older version
        self._committed_before = 0
        self._is_filled_up = False  # nodes get the state one by one, as others report
        self._began = 0.0

    def take(self, event: Event) -> None:
        """Take in one event."""
        name = event["event"]
        self.phase = PHASES.get(name, self.phase)
        if name == "started":
            self.about = event
            self.declared = declared(event.get("metrics"))
            self.committed = self._committed_before = event["committed"]
            self._began = event["time"]
        elif name == "round-started":
            self.round_number, self.attempt, self.cohort = event["round"], event["attempt"], 0
            self.nodes = dict.fromkeys(ENDED, 0)
        elif name == "collecting":
            self.cohort, self._is_filled_up = event["wanted"], True
        elif name == "configured" and not self._is_filled_up:
            self.cohort = event["cohort"]
        elif name in ENDED:
            self.nodes[name] += 1
        elif name in ("abandoned", "too-few-ready") or name == "answered-late":
            self.warning = f"round {event['round']} attempt {event['attempt']} {name}: {event['reason']}"
        elif name == "stopped":
            self.warning = f"stopped early in round {event['round']} because {event['reason']}"
        elif name == "committed":
            self.committed = event["round"]
            self.rows.append(event)
        elif name == "ended":
            self.phase = event["status"]

    @property
    def rounds(self) -> int:
        """The number of rounds that the run is to commit in all."""
        return int(self.about.get("rounds", 0))

    def seconds_left(self, now: float) -> float | None:
        """Return the seconds that the remaining rounds will take at the pace so far; None before the first round."""
        done = self.committed - self._committed_before
        if not done or not self.rounds:
            return None
        last = float(self.rows[-1]["time"])
        pace = (last - self._began) / done
        return max((self.rounds - self.committed) * pace - (now - last), 0.0)

    def times_smaller(self, row: Event) -> float | None:
        """Return the compression ratio of a round: bytes of plain reports over bytes that came; None for ensembles."""
        plain = float(self.about.get("plain_bytes", 0)) * row["uploads"]
        if not self.about.get("plain_bytes", 1):
            return None
        return plain / row["bytes_up"] if row["bytes_up"] else 1.0

    @property
    def measured(self) -> list[str]:
        """The names of the columns that depend on the model, in their order."""
        known = {*COLUMNS, *OF_EVENTS}
        return [name for name in (self.rows[-1] if self.rows else ()) if name not in known]

    def metrics_of(self, columns: Sequence[str]) -> Metrics:
        """Return the metrics of these columns: as the run declares them, else as fedlearn knows them."""
        return Metrics.of_all([self.declared or Metrics(), Metrics.of_columns(columns)]).that_hold(columns)


@contextmanager
def following(path: Path, begin: int, take: Callable[[Event], None]) -> Iterator[None]:
    """Call `take` with every event that is appended to a log, in a thread of its own, until the block ends.

    A log that cannot be read is passed over in silence: its writer reports the error.
    """
    stop = threading.Event()

    def follow() -> None:
        tail = EventTail(path, begin)
        while True:
            last = stop.is_set()
            with suppress(OSError):
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
