"""Runs one schedule: the real server on a simulated network, disk and clock, session after session to its end."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import server.exchange
import server.run
from fedlearn import flower
from fedlearn.config import RunConfig, to_flower
from fedlearn.errors import FedlearnError, RunFailed
from fedlearn.runs.checkpoint import APPENDED, RunStore
from fedlearn.runs.folder import EVENTS
from fedlearn.runs.log import EventLog
from fedlearn.state import State
from server.draws import Draws
from server.exchange import Exchange
from server.run import ServerRun
from server.schedules import SCHEDULES
from strategies import load_strategy
from tests.faults.disk import Disk, Killed
from tests.faults.network import Network
from tests.faults.schedules import Kill, Schedule

STATE = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(2, np.float32)}
server.run.cpu_seconds = lambda: None  # reads of every process of the machine, and takes longer than a round
server.exchange.SHORTEST, server.exchange.LONGEST, server.exchange.SHARE = 0.4, 4.0, 0.2  # a third of the looks
IN_MEMORY = Path("/dev/shm")  # where there is one: a million runs would wear a disk out


@dataclass
class Seen:
    """What was seen of one attempt, or of what came between two.

    Parameters
    ----------
    events
        As the server wrote them.
    states, memories
        The state and what the strategy carries, before and after.
    """

    events: list[dict[str, Any]] = field(default_factory=list)
    state_before: State = field(default_factory=dict)
    state_after: State = field(default_factory=dict)
    memory_before: State = field(default_factory=dict)
    memory_after: State = field(default_factory=dict)

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        """Return the events of some kinds."""
        return [event for event in self.events if event["event"] in kinds]

    @property
    def is_whole(self) -> bool:
        """Whether the server came to its end: it was committed or abandoned."""
        return bool(self.of("committed", "abandoned", "too-few-ready"))


@dataclass
class Ended:
    """A run that has ended, and how.

    Parameters
    ----------
    attempts
        What was seen of each attempt, those of killed sessions included.
    failed
        Why it failed; empty if it is complete.
    looks
        When the server last asked for reports of each (round, attempt).
    unsound
        Files of the log and of the nodes that a resumed server did not find as the commit before had named them.
    booked
        Bytes down, up and of the protocol, as the server has counted them; None where a session was killed.
    seconds
        Of virtual time.
    left
        Files in the folder when it had ended.
    """

    schedule: Schedule
    attempts: list[Seen]
    failed: str
    network: Network
    looks: dict[tuple[int, int], float]
    unsound: list[str]
    booked: tuple[int, int, int] | None
    seconds: float
    left: list[str]
    store: RunStore
    reloaded: RunStore
    story: list[str]


class _Watching(EventLog):
    """The server's own log, which also tells us."""

    def __init__(self, path: Path, hear: Callable[[dict[str, Any]], None]) -> None:
        self._hear = hear
        super().__init__(path)

    def write(self, event: str, **fields: object) -> None:
        super().write(event, **fields)
        self._hear({"event": event, **fields})

    def flush(self) -> None:
        super().flush()
        self._flushed = math.inf  # never again because of the time of day: same seed, same operations


def run(schedule: Schedule, *, is_told: bool = False) -> Ended:
    """Run a schedule to its end; with its story, which takes time."""
    flower.enter_run()
    folder = Path(tempfile.mkdtemp(dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
    try:
        return _World(schedule, folder / "run", is_told=is_told).run()
    finally:
        shutil.rmtree(folder)


class _World:
    def __init__(self, schedule: Schedule, folder: Path, *, is_told: bool) -> None:
        folder.mkdir()
        self.is_told = is_told
        self.schedule = schedule
        self.config = _config(schedule.clients, json.dumps(schedule.settings))
        self.folder = folder
        self.disk = Disk(folder)
        self.story: list[str] = []
        self.network = Network(schedule, self.tell if is_told else None)
        self.attempts: list[Seen] = []
        self.looks: dict[tuple[int, int], float] = {}
        self.unsound: list[str] = []
        self.server: ServerRun | None = None

    def tell(self, line: str) -> None:
        self.story.append(f"{self.network.clock.now():10.2f} s  {line}")

    def run(self) -> Ended:
        failed = ""
        for kill in (*self.schedule.kills, None):
            self.network.restarted()
            try:
                with self.disk.session(kill) if kill else nullcontext():  # after the last one nothing can be lost
                    self._session(kill)
                break
            except Killed:
                self.tell("the server is killed")
            except RunFailed as error:
                if "No space left" not in str(error):
                    failed = str(error)
                    break
                self.tell(f"the server ends: {error}".replace(str(self.folder), "run"))
            if kill is not None and kill.how == "power":
                self.disk.fail()
        booked = self._booked() if not self.schedule.kills and self.server is not None else None
        reloaded = RunStore(self.folder)
        assert self.server is not None
        files = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())
        reloaded.load()
        return Ended(
            self.schedule, self.attempts, failed, self.network, self.looks, self.unsound, booked,
            self.network.clock.now(), files, self.server.store, reloaded, self.story,
        )  # fmt: skip

    def _session(self, kill: Kill | None) -> None:
        """Begin the run, or go on with it, as the server app does."""
        draws = Draws(self.config, is_virtual=True)
        strategy = load_strategy(self.config.strategy)
        store = RunStore(self.folder)
        log = _Watching(self.folder / EVENTS, self._hear)
        if store.exists:
            store.load()
            if store.history.rounds:
                self.unsound += [name for name in APPENDED if store.sound_bytes(name) is None]
            strategy.remember(draws.remember(store.memory))
        else:
            store.begin({name: array.copy() for name, array in STATE.items()})
        exchange = Exchange(self.network, to_flower(self.config))
        self.server = ServerRun(exchange, strategy, store, self.config, events=log, draws=draws)
        self._watch_looks(exchange)
        with nullcontext() if kill else log:  # a process that is killed closes nothing
            try:
                SCHEDULES.load(self.config.rounds.schedule)(self.server).run()
            finally:
                self._end_attempt()
            log.flush()

    def _watch_looks(self, exchange: Exchange) -> None:
        pull = exchange.pull

        def watched(message_ids: Any) -> Any:
            if self.attempts and (asked := self.network.asked):
                self.looks[asked[-1].at] = self.network.clock.now()
            return pull(message_ids)

        exchange.pull = watched  # type: ignore[method-assign]

    def _hear(self, event: dict[str, Any]) -> None:
        if event["event"] == "round-started":
            self._end_attempt()
            assert self.server is not None
            memory = self.server.strategy.memory()
            self.attempts.append(Seen(state_before=dict(self.server.state), memory_before=dict(memory)))
        if "node" in event:  # whatever it says that it holds
            event = {**event, "partition": self.network.partition_of(event["node"])}
        if self.attempts:
            self.attempts[-1].events.append(event)
        if self.is_told:
            about = ", ".join(f"{name}={value}" for name, value in event.items() if name not in ("event", "node"))
            self.tell(f"    {event['event']}: {about}"[:160])

    def _end_attempt(self) -> None:
        if self.attempts and self.server is not None and not self.attempts[-1].state_after:
            self.attempts[-1].state_after = dict(self.server.state)
            self.attempts[-1].memory_after = dict(self.server.strategy.memory())

    def _booked(self) -> tuple[int, int, int]:
        assert self.server is not None
        left, rounds = self.server.exchange.traffic, self.server.store.history.rounds
        return (
            left.down + sum(each.bytes_down for each in rounds),
            left.up + sum(each.bytes_up for each in rounds),
            left.protocol + sum(each.bytes_protocol for each in rounds),
        )


@lru_cache(maxsize=4096)
def _config(clients: int, settings: str) -> RunConfig:
    tables: dict[str, Any] = {"clients": clients, "evaluation": {"where": "none"}}
    with suppress(FedlearnError):
        return RunConfig.model_validate({**tables, **json.loads(settings)})
    raise AssertionError(f"no settings: {settings}")
