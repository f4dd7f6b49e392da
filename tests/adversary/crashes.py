"""Kills a run at every operation on its files, resumes it, and compares the bytes.

    python -m tests.adversary.crashes                    # a sample, a minute
    python -m tests.adversary.crashes --points 1000      # every operation, and kills of the resumed run

An operation is whatever Python tells its audit hooks of files below the run folder (opened for writing, renamed,
removed, made, truncated), and each write, flush, truncation and sync: there is no list of the writer's functions here,
so that one more file has its points at once. A write is cut in its middle, too. The runs go by every schedule of the
table and by a guest's, with memories of strategy and nodes and without. One is private, its noise secure, and abandons
the first attempt of each round.

Exit code 1 if a resumed run has other bytes than one that was never killed, or leaves other files behind; of the
private one, whose bytes no seed gives, if its log tells of an answer that no ledger in its checkpoint has paid for.
"""

from __future__ import annotations

import builtins
import csv
import io
import json
import os
import random
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer

from client.memory import memory_of
from client.node_ledger import InMemory
from fedlearn import flower
from fedlearn.commands.shared import run_settings
from fedlearn.config import config_from
from fedlearn.engine import inline
from fedlearn.engine.apps import load_client_app, load_server_app
from fedlearn.engine.node_calls import context_of, partition_of
from fedlearn.privacy.bookings import Publication, bookings
from fedlearn.privacy.ledger import Ledger
from fedlearn.runs.file_names import CHECKPOINT, EVENTS, NODE_STATES, SETTINGS
from fedlearn.runs.log import EventTail
from fedlearn.runs.manifest import Manifest
from fedlearn.runs.memories import unpacked
from server.schedules import SCHEDULES
from tests.adversary import tiny

GUEST = "tests.end_to_end.plugins.two_selections:TwoSelections"
CHANGING = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
LONGEST = 200  # seconds that one run may take before it counts as hanging
SHOWN = 10
LONGEST_EVENT = 1 << 16  # bytes
IN_TIME = {"devices.name": "alike", "rounds.schedule_options.in_flight": 3, "rounds.total": 6}
"""For schedules for which nodes must take time; of six nodes half are in flight when a round is committed."""
NEVER = 0
PRIVATE = "private, each round twice"
TIMES = (
    "seconds", "cpu_seconds", "memory_bytes", "memory_peak_bytes", "seconds_per_round", "history_bytes", "appended",
)  # fmt: skip
"""Keys of a summary and a checkpoint that differ from run to run. The log has the time of each event."""


def runs() -> dict[str, dict[str, Any]]:
    """Return the settings of the runs that are killed, by name."""
    schedules = {**{name: name for name in SCHEDULES}, "two selections": GUEST}
    memories = {"": {}, ", with memories": tiny.OWING}
    in_time = {name: IN_TIME for name in SCHEDULES if hasattr(SCHEDULES.load(name), "check")}
    seeded = {
        f"{name}{which}": {**tiny.SETTINGS, **memory, **in_time.get(name, {}), "rounds.schedule": schedule}
        for name, schedule in schedules.items()
        for which, memory in memories.items()
    }
    return seeded | {PRIVATE: {**tiny.SETTINGS, **tiny.PRIVATE}}


# --- one process ------------------------------------------------------------------------------------------------------


class Points:
    """Counts the operations on files below a folder, and ends the process by SIGKILL at one of them.

    Parameters
    ----------
    last
        At which, from 1; `NEVER`.
    """

    def __init__(self, folder: Path, last: int) -> None:
        self.folder = folder
        self.last = last
        self.count = 0

    def watch(self) -> None:
        """Count from now on, for as long as the process lives."""
        opened = io.open

        def watched_open(file: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
            stream = opened(file, mode, *given, **named)
            return Watched(stream, self) if set(mode) & {*"wax+"} and self.is_below(file) else stream

        def watched_sync(descriptor: int) -> None:
            self.pass_by()  # no more than that: what was written survives a kill

        io.open = builtins.open = watched_open  # type: ignore[assignment]
        os.fsync = watched_sync
        sys.addaudithook(self._hear)

    def pass_by(self) -> None:
        self.count += 1
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)

    def is_below(self, file: Any) -> bool:
        path = Path(f"/proc/self/fd/{file}").readlink() if isinstance(file, int) else Path(file)
        return path.is_relative_to(self.folder)

    def _hear(self, event: str, given: tuple[Any, ...]) -> None:
        if event not in CHANGING or not isinstance(given[0], str | os.PathLike) or not self.is_below(given[0]):
            return
        if event == "open":
            _, mode, flags = given
            if not (set(mode or "") & {*"wax+"} or (flags or 0) & WRITING):
                return
        self.pass_by()


class Watched:
    """A file each of whose operations is a point; a write is two, before it and in its middle."""

    def __init__(self, stream: Any, points: Points) -> None:
        self._stream = stream
        self._points = points

    def __getattr__(self, name: str) -> Any:
        if name in ("flush", "truncate", "close"):
            self._points.pass_by()
        return getattr(self._stream, name)

    def write(self, data: Any) -> int:
        self._points.pass_by()
        middle = len(data) // 2
        self._stream.write(data[:middle])
        self._stream.flush()
        self._points.pass_by()
        self._stream.write(data[middle:])
        return len(data)

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def in_a_child(work: Callable[[], int], errors: Path) -> tuple[int, int]:
    """Do some work in a forked process; return its exit status and the number that `work` returned.

    A process that hangs is ended; what it raised stands in the file `errors`.
    """
    out, into = os.pipe()
    child = os.fork()
    if not child:
        os.close(out)
        signal.alarm(LONGEST)
        status = 1
        try:
            with errors.open("w") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            os.write(into, str(work()).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(status)
    os.close(into)
    with open(out, "rb") as pipe:  # noqa: PTH123 (a descriptor has no path)
        said = pipe.read()
    return os.waitpid(child, 0)[1], int(said or 0)


def run(settings: Mapping[str, Any], folder: Path, *, killed_at: int = NEVER) -> int:
    """Begin a run or go on with it, as the command does; return how many operations it made."""
    points = Points(folder, killed_at)
    points.watch()
    resumes = (folder / SETTINGS).exists()
    inline.run(run_settings({}, [], folder) if resumes else config_from({**settings, "out": str(folder)}))
    return points.count


# --- what is left behind ----------------------------------------------------------------------------------------------


def content_of(folder: Path) -> dict[str, str]:
    """Return the files of a run: their content without times, or a hash."""
    paths = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: _said_by(name, path) for name, path in paths.items() if name not in (".lock", "environment.json")}


def _said_by(name: str, path: Path) -> str:
    if name == "events.jsonl":  # of each session
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - LONGEST_EVENT, 0))
            return str(json.loads(file.read().splitlines()[-1])["status"])
    if name == "manifest.json":  # checksums of files that hold times
        return str(sorted(json.loads(path.read_text())["files"]))
    if name in ("summary.json", "checkpoint.json"):
        told = json.loads(path.read_text())
        for names in (told.get("files", {}), told.get("sizes", {})):
            for memories in filter(NODE_STATES.fullmatch, list(names)):
                del names[memories]
        return str({key: value for key, value in told.items() if key not in TIMES and not key.endswith("sha256")})
    if NODE_STATES.fullmatch(name):  # it shows how often a node in flight was asked again, which is no loss
        kept = Manifest.read(path.parents[1] / CHECKPOINT).sizes[name]
        return str(sorted(unpacked(path.read_bytes()[:kept]).items()))
    if name == "metrics.csv":
        return str([_timeless(row) for row in csv.DictReader(path.read_text().splitlines())])
    if name.endswith("history.jsonl"):
        counts = json.loads((path.parents[1] / CHECKPOINT).read_text())["history_bytes"]
        with path.open("rb") as file:  # what lies behind belongs to no round
            return str([_timeless(json.loads(line)) for line in file.read(counts).splitlines()])
    return sha256(path.read_bytes()).hexdigest()


def _timeless(row: Mapping[str, Any]) -> dict[str, Any]:
    return {column: value for column, value in row.items() if not column.endswith("_seconds")}


def difference(found: Mapping[str, str], expected: Mapping[str, str]) -> str:
    """Return which files differ, are missing, or are too many; empty if none."""
    words = {(True, True): "other", (True, False): "left behind", (False, True): "missing"}
    wrong = [name for name in sorted({*found, *expected}) if found.get(name) != expected.get(name)]
    return ", ".join(f"{name} is {words[name in found, name in expected]}" for name in wrong)


def unpaid(folder: Path) -> str:
    """Return what is wrong with the ledgers of the nodes of a private run; empty if they are right.

    An answer is told by the norm that the log has of it. Each that was ever written down was paid for, and no other.
    """
    answers: dict[int, set[tuple[int, float]]] = {}
    for event in EventTail(folder / EVENTS).read():
        if event["event"] == "reported":
            answers.setdefault(event["partition"], set()).add((event["round"], event["norm"]))
    ledgers = dict(_ledgers(folder))
    paid = {partition: [each.round_number for each in bookings(of.entries())] for partition, of in ledgers.items()}
    seen = {partition: [number for number, _ in sorted(each)] for partition, each in answers.items()}
    kept = all(len(paid[key]) == len(published(ledgers[key])) for key in paid)
    return "" if paid == seen and kept else f"seen were answers in rounds {seen}, paid for are {paid}"


def published(ledger: Ledger) -> list[Publication]:
    """Return the published answers."""
    return [entry for entry in ledger.check() if isinstance(entry, Publication)]


def _ledgers(folder: Path) -> Iterator[tuple[int, Ledger]]:
    manifest = Manifest.read(folder / CHECKPOINT)
    (name,) = (name for name in manifest.files if NODE_STATES.fullmatch(name))
    stored = (folder / name).read_bytes()[: manifest.sizes[name]]
    for node, kept in sorted(unpacked(stored).items()):
        memory = memory_of(context_of(node, kept, num_nodes=6, settings={}))
        if memory.texts:
            yield partition_of(node), Ledger(InMemory(memory))


# --- all of it --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kill:
    """At which operation of the first process, and of the one that goes on, it is killed."""

    first: int
    second: int = NEVER


class Killed:
    """One run, killed again and again.

    Parameters
    ----------
    place
        Where the run folders are made.
    """

    def __init__(self, name: str, settings: Mapping[str, Any], place: Path) -> None:
        self.name = name
        self.settings = settings
        self.place = place
        whole = place / "whole"
        status, self.operations = in_a_child(lambda: run(settings, whole), place / "errors")
        assert status == 0, (place / "errors").read_text()
        self.expected = content_of(whole)

    def kills(self, number: int, rng: random.Random) -> list[Kill]:
        """Return as many kills: of every operation once, or a sample of them; then of resumed runs, too."""
        once = [Kill(at) for at in range(1, self.operations + 1)]
        if number <= len(once):
            return sorted(rng.sample(once, number), key=lambda kill: kill.first)
        twice = range(number - len(once))
        return once + [Kill(rng.randint(1, self.operations), rng.randint(1, self.operations)) for _ in twice]

    def after(self, kill: Kill) -> str:
        """Kill and resume a run; return what is wrong with what it left behind."""
        with tempfile.TemporaryDirectory(dir=self.place) as folder:
            errors, out = self.place / "errors", Path(folder) / "run"
            for at in (kill.first, kill.second, NEVER):
                status, _ = in_a_child(partial(run, self.settings, out, killed_at=at), errors)
                if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
                    continue
                if status:
                    return f"it ended with status {status}: {errors.read_text().strip().splitlines()[-1:]}"
            if self.name == PRIVATE:
                return unpaid(out) or difference(dict.fromkeys(content_of(out)), dict.fromkeys(self.expected))
            return difference(content_of(out), self.expected)


def main(
    points: Annotated[int, typer.Option(min=1, help="How many kills, spread evenly over the runs.")] = 60,
    seed: Annotated[int, typer.Option(help="Of the sample.")] = 1,
) -> None:
    """Kill runs at their file operations and resume them; exit code 1 if anything differs."""
    load_server_app()
    load_client_app()
    wrong = []
    print(f"{'run':<36} {'operations':>10} {'kills':>6} {'same bytes':>10} {'other':>6}")
    chosen = runs()
    for number, (name, settings) in enumerate(chosen.items()):
        with tempfile.TemporaryDirectory() as place:
            killed = Killed(name, settings, Path(place))
            share = points // len(chosen) + (number < points % len(chosen))
            kills = killed.kills(share, random.Random(f"{seed}/{name}"))
            found = [(kill, killed.after(kill)) for kill in kills]
        bad = [f"{name}, {kill}: {what}" for kill, what in found if what]
        counts = f"{killed.operations:>10} {len(kills):>6} {len(kills) - len(bad):>10} {len(bad):>6}"
        print(f"{name:<36} {counts}", flush=True)
        wrong += bad
    for each in wrong[:SHOWN]:
        print(each)
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    flower.enter_run()
    typer.run(main)
