"""A fault schedule: what goes wrong in one run, drawn from a seed, down to the last message.

Every fault is about a round, an attempt and mostly a node, never about a time of day: a run that is killed and resumed
meets the faults of its attempts again, and can be compared with the run that was not.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

WINDOW, DEADLINE = 8.0, 16.0  # seconds
GUEST = "tests.end_to_end.plugins.two_selections:TwoSelections"
ASYNCHRONOUS = ("buffered", "immediate")
MEASURED_BY = 2**40  # by how much the seed is another by which faults of measuring are drawn: all else stays as it was
SOON = 0.2  # seconds from a message to its answer, both ways


class Phase(StrEnum):
    """Of what a fault keeps the server waiting, or what it spoils."""

    READY = "ready"
    TRAIN = "train"
    EVALUATE = "evaluate"


class Ends(StrEnum):
    """How a report ends that comes in time, once."""

    COUNTED = "reported"
    REFUSED = "refused"
    FAILED = "failed"


TIMING = {
    "lost": "the message to it is lost",
    "unanswered": "its answer is lost",
    "crashed": "it crashes before it answers",
    "slow": "it answers after some seconds",
    "doubled": "its answer comes twice",
    "repeated": "its answer comes again, spoiled, after the first",
    "forged": "a spoiled answer comes before its own",
    "gone": "it is not connected",
}
"""What can happen to any message: name -> as the story says it."""

LIES = {
    "flipped": "a bit of its report is flipped on the way",
    "cut": "its report is cut short on the way",
    "nan": "it sends NaN",
    "infinite": "it sends infinity",
    "no-examples": "it claims no examples",
    "many-examples": "it claims 10^12 examples",
    "half-example": "it claims half an example",
    "next-round": "it says that its report is of the next round",
    "other-attempt": "it says that its report is of another attempt",
    "other-place": "it takes another node's place",
    "other-partition": "it says that it holds another partition",
    "other-seed": "it says another seed",
    "other-kind": "it sends a change and no weights",
    "stale": "it sends the report of an earlier attempt again",
    "shape": "it sends another shape",
    "dtype": "it sends numbers of another kind",
    "positions": "it says that it sends entries which are none",
    "nameless": "it sends a parameter that nobody knows",
    "parcel": "it sends a parcel that nobody asked for",
    "bloated": "it sends far more numbers about its training than there are",
    "unlabelled": "it says nothing of its report",
    "empty": "it sends nothing",
}
"""Kinds of reports that must be refused from any node."""

BEYOND = {
    "far": "it sends a change a thousand times as long",
    "weighty": "it claims as many examples as any node may",
}
"""Reports that are sound in themselves: refused where there are enough others beside which they go too far."""

HARMLESS = {"odd-metric": "it says that its loss is NaN"}
RAISING = {"raised": "its code raises"}
UNREADY = {"busy": "it says that it is not ready", "thief": "it says that it holds another's partition",
           "nobody": "it says that it holds no partition", "mumbling": "its answer cannot be read"}  # fmt: skip
MISMEASURED = {
    "measures-nan": "it measures NaN",
    "measures-beyond": "it measures an accuracy of 2",
    "measures-nothing": "it has measured on no examples",
    "measures-half": "it has measured on half an example",
    "measures-many": "it has measured on 10^12 examples",
    "measures-other": "it has measured other things",
    "says-nothing": "it answers with nothing",
}
"""Kinds of measurements of a state that must not be averaged, from any node."""

ONE_ANSWER = ("lost", "unanswered", "crashed", "slow")
"""What can happen to a node of a simulation on virtual time: it answers once, and is always connected."""
SILENT = ("lost", "unanswered", "crashed", "gone")
"""After these no answer comes."""

SENT = (
    *[("identity", "weights")] * 4, ("identity", "update"), ("drop:0.5", "weights"), ("drop:0.5", "update"),
    ("top-k:0.5", "update"),
)  # fmt: skip
"""What nodes do to what they send: the codec, and of what."""

SERVER = {"jump": "the clock jumps"}
STORY = TIMING | LIES | BEYOND | HARMLESS | RAISING | UNREADY | MISMEASURED | SERVER


class Fault(NamedTuple):
    """One thing that goes wrong.

    Parameters
    ----------
    partition
        Whose node; -1 of the server.
    attempt
        0 where a state is measured.
    amount
        Seconds, where it takes any; else a number that its maker may use.
    """

    what: str
    phase: Phase
    round_number: int
    attempt: int
    partition: int
    amount: float = 0.0

    def __str__(self) -> str:
        who = "server" if self.partition < 0 else f"node of partition {self.partition}"
        where = f", attempt {self.attempt}" if self.attempt else ""
        return f"round {self.round_number}{where}, {self.phase}: {who}: {STORY[self.what]}"


class Kill(NamedTuple):
    """Where a session of the server ends.

    Parameters
    ----------
    operation
        At which of its operations on files, from 1.
    how
        "kill": all that was handed to the operating system is there; "power": of what was not synced only a part, by
        `seed`; "full": the disk has no more room.
    """

    operation: int
    how: str
    seed: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """A run and all that goes wrong in it.

    Parameters
    ----------
    settings
        Tables of the run's settings.
    network
        Whether the server learns from the nodes which partitions they hold.
    timed
        Whether the nodes of a simulation have devices, so that it goes by virtual time.
    private
        Whether the nodes of a simulation pay for what they publish, in ledgers that the server's checkpoint keeps.
    paces
        Seconds from a message to its answer, by partition.
    moving
        Partitions whose node comes back with another id after each round: on a network only.
    kills
        Of the server, one a session.
    """

    seed: int
    clients: int
    settings: dict[str, Any]
    network: bool
    timed: bool
    private: bool
    paces: tuple[float, ...]
    moving: frozenset[int]
    faults: tuple[Fault, ...]
    kills: tuple[Kill, ...]

    @property
    def is_asynchronous(self) -> bool:
        """Whether nodes work all the time, and a round is made of what has come."""
        return self.settings["rounds"]["schedule"] in ASYNCHRONOUS

    @property
    def is_measured(self) -> bool:
        """Whether nodes measure each state."""
        return bool(self.settings["evaluation"]["where"] == "nodes")

    @property
    def options(self) -> dict[str, Any]:
        """The options of its schedule of rounds."""
        given: dict[str, Any] = json.loads(self.settings["rounds"].get("schedule_options") or "{}")
        return given

    @property
    def is_read_back(self) -> bool:
        """Whether the stored files are read again at the end; most runs without a kill are not."""
        return bool(self.kills) or self.private or self.seed % 4 == 0

    def without_kills(self) -> Schedule:
        """Return it with a server that is never killed."""
        return replace(self, kills=())

    def smaller(self) -> Iterator[Schedule]:
        """Yield schedules in which less goes wrong, the boldest first."""
        faults = self.faults
        for size in (len(faults) // 2, len(faults) // 4, 1):
            for start in range(0, len(faults), size) if size else ():
                yield replace(self, faults=faults[:start] + faults[start + size :])
        for place in range(len(self.kills)):
            yield replace(self, kills=self.kills[:place] + self.kills[place + 1 :])
        if self.moving:
            yield replace(self, moving=frozenset())
        if self.settings["rounds"]["total"] > 1:
            rounds = {**self.settings["rounds"], "total": self.settings["rounds"]["total"] - 1}
            yield replace(self, settings={**self.settings, "rounds": rounds})

    def told(self) -> list[str]:
        """Return the lines that say what it is."""
        rounds = ", ".join(f"{name} {value}" for name, value in self.settings["rounds"].items())
        codec, send = self.settings["compression"].values()
        sent = ("nodes send weights" if send == "weights" else "nodes send updates") + f" by {codec}"
        grid = "a network" if self.network else "a simulation on virtual time" if self.timed else "a simulation"
        lines = [f"{self.clients} nodes on {grid}; {rounds}; strategy {self.settings['strategy']['name']}; {sent}"]
        lines += ["its nodes pay for what they publish"] if self.private else []
        lines += ["nodes measure each state"] if self.is_measured else []
        lines += [f"the node of partition {partition} takes {seconds:g} s" for partition, seconds in
                  enumerate(self.paces) if seconds != SOON]  # fmt: skip
        lines += [f"the node of partition {partition} changes its id" for partition in sorted(self.moving)]
        lines += [str(fault) for fault in self.faults]
        return lines + [f"session {n}: {kill.how} at file operation {kill.operation}" for n, kill in
                        enumerate(self.kills, start=1)]  # fmt: skip


def drawn(seed: int) -> Schedule:
    """Return the schedule of a seed: the same one everywhere, always."""
    rng = random.Random(seed)
    clients = rng.choice((2, 2, 3, 3, 3, 4, 4, 5, 6))
    network = rng.random() < 0.4
    draw = _asynchronous if rng.random() < 0.3 else _synchronous
    rounds, paces = draw(rng, clients)
    is_asynchronous = draw is _asynchronous
    moving = frozenset(p for p in range(clients) if network and rng.random() < 0.1)
    strategy = rng.choice(("fedavg", "fedavg", "fedavgm", "median"))
    often = rng.choice((0.02, 0.05, 0.1, 0.3))
    timed = is_asynchronous and not network
    kinds = [what for what in TIMING if what in ONE_ANSWER or not timed]
    phases = (Phase.TRAIN,) if is_asynchronous else (Phase.READY, Phase.TRAIN)
    faults = tuple(_faults(rng, clients, rounds["total"], kinds, phases, often=often, jumps=not timed))
    kills = tuple(_kills(rng, rounds["total"])) if rng.random() < 0.25 else ()
    settings = {"rounds": rounds, "strategy": {"name": strategy}, "seed": rng.randint(0, 9)}
    private = not network and not timed and rng.random() < 0.4
    settings["compression"] = dict(zip(("codec", "send"), rng.choice(SENT), strict=True))
    others = random.Random(seed + MEASURED_BY)
    is_measured = not private and others.random() < 0.2
    settings["evaluation"] = {"where": "nodes" if is_measured else "none"}
    if is_measured:
        timing = [] if timed else list(TIMING)  # what is measured takes no virtual time, and always comes
        faults += tuple(_of_measuring(others, clients, rounds["total"], [timing, [*MISMEASURED, *RAISING]], often))
    return Schedule(seed, clients, settings, network, timed, private, paces, moving, faults, kills)


def _rounds(rng: random.Random, clients: int, total: int, **others: Any) -> dict[str, Any]:
    return {
        "total": total, "cohort": rng.randint(1, clients), "selection_window": WINDOW, "reporting_deadline": DEADLINE,
        "backoff": 1.0, "max_attempts": rng.choice((2, 2, 3)), "quorum": rng.choice((0.3, 0.5, 0.8, 1.0)), **others,
    }  # fmt: skip


def _synchronous(rng: random.Random, clients: int) -> tuple[dict[str, Any], tuple[float, ...]]:
    rounds = _rounds(
        rng, clients, rng.choice((1, 1, 2, 2, 3)), invited=rng.choice((0, clients)),
        minimum_ready=rng.choice((0.5, 0.8, 1.0)), schedule=rng.choice(("synchronous",) * 4 + (GUEST,)),
    )  # fmt: skip
    return rounds, (SOON,) * clients


def _asynchronous(rng: random.Random, clients: int) -> tuple[dict[str, Any], tuple[float, ...]]:
    name = rng.choice(ASYNCHRONOUS)
    options: dict[str, Any] = {
        "in_flight": rng.randint(1, clients), "largest_staleness": rng.choice((0, 1, 2)),
        "staleness": rng.choice(("constant", "polynomial", "hinge")), "grace": rng.choice((0, 1)),
    }  # fmt: skip
    if name == "buffered":
        options["buffer_size"] = rng.randint(1, clients)
    total = rng.choice((1, 2, 3, 4)) if name == "buffered" else rng.choice((2, 3, 5))
    text = json.dumps(options, sort_keys=True)
    paces = tuple(rng.choice((SOON, SOON, 1.0, 3.7, 9.0)) for _ in range(clients))
    return _rounds(rng, clients, total, schedule=name, schedule_options=text), paces


def _faults(
    rng: random.Random, clients: int, total: int, timing: list[str], phases: tuple[Phase, ...], *, often: float,
    jumps: bool,
) -> Iterator[Fault]:  # fmt: skip
    of_content = {Phase.READY: [*UNREADY, *RAISING], Phase.TRAIN: [*LIES, *HARMLESS, *RAISING, *BEYOND, *["far"] * 4]}
    for round_number in range(1, total + 1):
        for attempt in range(1, 8):  # the guest's schedule has two in each of three, and one more is judged anew
            for phase in phases:
                for partition in range(clients):
                    for kinds in (timing, of_content[phase]):
                        if rng.random() < often:
                            seconds = rng.choice((0.01, 0.3, 2.0, 7.9, 8.1, 15.9, 16.1, 30.0, 100.0))
                            yield Fault(rng.choice(kinds), phase, round_number, attempt, partition, seconds)
                if jumps and rng.random() < often / 4:
                    yield Fault("jump", phase, round_number, attempt, -1, rng.choice((1.0, 20.0, 1e5)))


def _of_measuring(
    rng: random.Random, clients: int, total: int, kinds: list[list[str]], often: float
) -> Iterator[Fault]:
    for round_number in range(1, total + 1):
        for partition in range(clients):
            for each in kinds:
                if each and rng.random() < often:
                    seconds = rng.choice((0.01, 2.0, 15.7, 16.3, 100.0))
                    yield Fault(rng.choice(each), Phase.EVALUATE, round_number, 0, partition, seconds)


def _kills(rng: random.Random, total: int) -> Iterator[Kill]:
    for _ in range(rng.choice((1, 1, 2))):
        operation = rng.randint(1, 60 * rng.randint(1, total))
        yield Kill(operation, rng.choice(("kill", "power", "power", "full")), rng.randrange(2**32))
