"""Runs one schedule: the real server on a simulated network, disk and clock, session after session to its end."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import count
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from pydantic import ConfigDict, TypeAdapter

import fedlearn.aggregation.fold
import fedlearn.config.load
import fedlearn.plugins.options
import fedlearn.plugins.registry
import fedlearn.runs.machine_usage
import server.exchange.exchange
import server.run
import server.strategy_rng
from fedlearn import flower
from fedlearn.config import RunConfig, to_flower
from fedlearn.core.cohort import At
from fedlearn.core.errors import RunFailed
from fedlearn.core.metric import virtual_time
from fedlearn.core.metrics import NEURAL_CLASSIFIER, Metrics
from fedlearn.core.state import State, UpdateKind
from fedlearn.data.cifar10 import SPEC
from fedlearn.models.loaded import Traits
from fedlearn.runs.appended import APPENDED
from fedlearn.runs.checkpoint import RunStore
from fedlearn.runs.file_names import EVENTS
from fedlearn.runs.log import EventLog, EventTail
from fedlearn.runs.memories import unpacked
from server.exchange.exchange import Exchange
from server.planning.run_plan import with_columns
from server.run import ServerRun
from server.schedules import load_schedule, metrics_of, rest_of
from server.strategy_rng import Draws
from strategies import load_strategy
from tests.faults.disk import ROOT, Disk, Killed
from tests.faults.network import Network, ledger_of
from tests.faults.schedules import Kill, Schedule

STATE = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(2, np.float32)}
PUBLISHED = ("reported", "refused", "late-report-refused")  # with bytes: something has come of a node
MOST_LOOKS = 20_000  # of one run; a hundred are many
TABLES = ("rounds", "strategy", "compression", "evaluation")  # of settings, that schedules give
ENDINGS = ("reported", "failed", "refused", "late")  # of a report


@lru_cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind, config=ConfigDict(arbitrary_types_allowed=True))


CHEAPER = {
    (fedlearn.runs.machine_usage, "cpu_seconds"): lambda: None,  # it takes longer than a round
    (server.exchange.exchange, "SHORTEST"): 0.4, (server.exchange.exchange, "LONGEST"): 8.0,
    (server.exchange.exchange, "SHARE"): 1.0,
    (server.run, "to_flower"): lambda _: dict(fedlearn.config.load._last[0]),  # type: ignore[index]
    (inspect, "signature"): lru_cache(inspect.signature),
    (PurePath, "__truediv__"): lru_cache(4096)(PurePath.__truediv__),
    (PurePath, "with_name"): lru_cache(PurePath.with_name),
    (fedlearn.plugins.options, "_types_of"): lru_cache(fedlearn.plugins.options._types_of),
    (fedlearn.plugins.options, "TypeAdapter"): lambda kind, **_: _adapter(kind),
    **{(module, "load_reference"): lru_cache(fedlearn.plugins.registry.load_reference)
       for module in (fedlearn.plugins.registry, fedlearn.aggregation.fold, server.exchange.exchange)},
    (server.strategy_rng, "seeded_globals"): lambda seed, held=(): _Seeded(seed),  # nothing draws from torch's, NumPy's
}  # fmt: skip
"""Parts that take time and find no mistake, replaced: so the server looks for answers ten times less often."""


class _Seeded:
    """Python's own generator, begun anew: the only one of which what runs here draws."""

    def __init__(self, seed: int | None) -> None:
        random.seed(seed)

    def __enter__(self) -> Callable[[], bool]:
        return bool

    def __exit__(self, *_: object) -> None:
        pass


@dataclass
class Seen:
    """The observations of one attempt, or of the time between two.

    Parameters
    ----------
    events
        As the server wrote them.
    states, memories
        The state and what the strategy carries, before and after.
    session
        Of the server, in which it was.
    asked
        How many instructions had been sent, in all, when it was abandoned.
    """

    session: int = 0
    asked: int = 0
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
    unpaid
        What the log on the disk, or an earlier checkpoint, said was paid for, and the ledgers in the checkpoint did not
        hold when a session began.
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
    unpaid: list[str]
    booked: tuple[int, int, int] | None
    seconds: float
    left: list[str]
    store: RunStore
    reloaded: RunStore
    story: list[str]


class _Watching(EventLog):
    """The server's own log, which also tells us."""

    def __init__(self, path: Path, hear: Callable[[dict[str, Any]], None], *, at_once: bool) -> None:
        self._hear = hear
        self._again = -math.inf if at_once else math.inf  # never because of the time of day: same seed, same operations
        super().__init__(path)

    def write(self, event: str, **fields: object) -> None:
        self._flushed = self._again
        super().write(event, **fields)
        self._hear({"event": event, **fields})


def run(schedule: Schedule, *, with_story: bool = False) -> Ended:
    """Run a schedule to its end; with its story, which takes time."""
    flower.enter_run()
    before = {place: getattr(*place) for place in CHEAPER}
    try:
        _set(CHEAPER)
        return _World(schedule, with_story=with_story).run()
    finally:
        _set(before)


def _set(values: Mapping[tuple[Any, str], Any]) -> None:
    for (module, name), value in values.items():
        setattr(module, name, value)


class _World:
    def __init__(self, schedule: Schedule, *, with_story: bool) -> None:
        self.with_story = with_story
        self.schedule = schedule
        self.config = settings_of(schedule)
        self.flat = flat_of(schedule)
        fedlearn.config.load._last = self.flat, self.config  # who reads them next finds them read, as in any run
        self.disk = Disk()
        self.story: list[str] = []
        self.network = Network(schedule, self.tell if with_story else None)
        self.attempts: list[Seen] = []
        self.looks: dict[tuple[int, int], float] = {}
        self.unsound: list[str] = []
        self.unpaid: list[str] = []
        self.ledgers: dict[int, list[At]] = {}  # as the last session found them
        self.server: ServerRun | None = None
        self.pulls = count()
        self.session = 0
        self.rounds = _rounds(schedule.settings["rounds"]["schedule"], self.config.rounds.schedule_options)
        self.columns = _columns(self.rounds, is_timed=schedule.timed)

    def tell(self, line: str) -> None:
        self.story.append(f"{self.network.clock.now():10.2f} s  {line}")

    def run(self) -> Ended:
        with self.disk.attached():
            failed = self._sessions()
            booked = self._booked() if not self.schedule.kills and self.server is not None else None
            assert self.server is not None
            left = self.disk.names
            reloaded = self.server.store
            if self.schedule.is_read_back:
                reloaded = RunStore(ROOT, self.columns)
                reloaded.load()
                self._find_unpaid(reloaded)
        return Ended(
            self.schedule, self.attempts, failed, self.network, self.looks, self.unsound, self.unpaid, booked,
            self.network.seconds + self.network.clock.now(), left, self.server.store, reloaded, self.story,
        )  # fmt: skip

    def _sessions(self) -> str:
        """Go from session to session until the run is over; return why it failed, if it did."""
        for number, kill in enumerate((*self.schedule.kills, None)):
            self.session = number
            self.network.restarted()
            try:
                with self.disk.session(kill):
                    self._session(kill)
                return ""
            except Killed:
                self.tell("the server is killed")
            except RunFailed as error:
                if "No space left" not in str(error):
                    return str(error)
                self.tell(f"the server ends: {error}".replace(str(ROOT), "run"))
            if kill is not None and kill.how == "power":
                self.disk.fail(kill.seed)
        raise AssertionError("the last session is not killed")

    def _session(self, kill: Kill | None) -> None:
        """Begin the run, or go on with it, as the server app does."""
        draws = Draws(self.config, is_virtual=True)
        strategy = load_strategy(self.config.strategy)
        store = RunStore(ROOT, self.columns)
        log = _Watching(ROOT / EVENTS, self._hear, at_once=self.schedule.private)
        if store.exists:
            store.load()
            if store.history.rounds:
                appended = APPENDED[:1] if self.schedule.private else APPENDED  # of private nodes there is no table
                self.unsound += [name for name in appended if store.sound_bytes(name) is None]
            self._find_unpaid(store)
            strategy.remember(draws.remember(rest_of(store.memory)))
        else:
            store.begin({name: array.copy() for name, array in STATE.items()})
        exchange = Exchange(self.network, self.flat)
        exchange.wall = exchange.clock  # nothing of a story is another one on another machine
        exchange.restore_node_states(store.node_states)
        exchange.go_on_from(store.history)
        self.server = ServerRun(
            exchange, strategy, store, self.config, events=log, draws=draws,
            traits=Traits(UpdateKind.DENSE, NEURAL_CLASSIFIER, SPEC, is_private=self.schedule.private),
        )  # fmt: skip
        self._watch_looks(exchange)
        with nullcontext() if kill else log:  # a process that is killed closes nothing
            try:
                self.rounds(self.server).run()
            finally:
                self._end_attempt()
            log.flush()

    def _find_unpaid(self, store: RunStore) -> None:
        """Compare what the log says was published with the ledgers that the checkpoint holds."""
        if self.schedule.private:
            ledgers = {node: ledger_of(data) for node, data in unpacked(store.node_states).items()}
            fallen = [node for node, held in self.ledgers.items() if not {*held} <= {*ledgers.get(node, [])}]
            self.unpaid += [f"the ledger of node {node} has fallen" for node in fallen]
            self.ledgers = ledgers
            for event in EventTail(ROOT / EVENTS).read():
                if event["event"] in PUBLISHED and event.get("bytes"):
                    at = At(event["round"], event["attempt"])
                    if at not in ledgers.get(event["node"], []):
                        self.unpaid.append(f"{at}, node {event['node']}: {event['event']}")

    def _watch_looks(self, exchange: Exchange) -> None:
        pull = exchange.pull

        def watched(message_ids: Any) -> Any:
            if next(self.pulls) == MOST_LOOKS:
                raise AssertionError(f"it has looked {MOST_LOOKS} times and goes on at {self.network.clock.now():g} s")
            if self.attempts and (asked := self.network.asked):
                self.looks[asked[-1].at] = self.network.clock.now()
            return pull(message_ids)

        exchange.pull = watched  # type: ignore[method-assign]

    def _hear(self, event: dict[str, Any]) -> None:
        if event["event"] == "round-started":
            self._end_attempt()
            assert self.server is not None
            memory = self.server.strategy.memory()
            before = dict(self.server.state)
            self.attempts.append(Seen(self.session, state_before=before, memory_before=dict(memory)))
        if event.get("node", -1) >= 0:  # whatever it says that it holds; one that is gone after a resume has no id
            event = {**event, "partition": self.network.partition_of(event["node"])}
        if self.attempts:
            self.attempts[-1].events.append(event)
            if event["event"] == "abandoned":
                self.attempts[-1].asked = len(self.network.asked)
        if self.with_story:
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


@lru_cache(maxsize=1)
def _checked() -> RunConfig:
    return RunConfig.model_validate({"evaluation": {"where": "none"}})


@lru_cache(maxsize=1)
def _checked_flat() -> dict[str, Any]:
    return to_flower(_checked())


def settings_of(schedule: Schedule) -> RunConfig:
    """Return a schedule's settings, not checked again: eighty of them take longer than a round."""
    base, given = _checked(), schedule.settings
    tables = {name: getattr(base, name).model_copy(update=given[name]) for name in TABLES}
    return base.model_copy(update={**tables, "clients": schedule.clients, "seed": given["seed"]})


def flat_of(schedule: Schedule) -> dict[str, Any]:
    """Return them as messages bring them."""
    entries = {f"{name}.{key}": value for name in TABLES for key, value in schedule.settings[name].items()}
    return {**_checked_flat(), **entries, "clients": schedule.clients, "seed": schedule.settings["seed"]}


@lru_cache(maxsize=4096)
def _rounds(name: str, options: str) -> partial[Any]:
    """Return the factory of the schedule of rounds; options are checked once, which takes longer than a round."""
    rounds = _checked().rounds.model_copy(update={"schedule": name, "schedule_options": options})
    return load_schedule(_checked().model_copy(update={"rounds": rounds}))


@lru_cache(maxsize=64)
def _columns(rounds: partial[Any], *, is_timed: bool) -> Metrics:
    added = (*metrics_of(rounds), *(virtual_time(["alike"]) if is_timed else ()))
    return with_columns(NEURAL_CLASSIFIER, added)
