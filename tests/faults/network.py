"""The simulated network and its nodes: messages are lost, wait, come twice, and hold what a schedule says."""

from __future__ import annotations

import json
import math
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ConfigRecord, Error, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid

from fedlearn import flower, wire
from fedlearn.aggregation.offers import Offers
from fedlearn.compression import load_codec
from fedlearn.compression.codec import Codec, Payload
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.clock import ManualClock
from fedlearn.core.cohort import At, Instruction
from fedlearn.core.seeding import report_seed
from fedlearn.core.state import State, layout_of
from fedlearn.flower import ErrorCode
from fedlearn.runs.memories import packed, unpacked
from server.gate.gate import MOST_ENTRIES
from tests.faults.schedules import BEYOND, LIES, MISMEASURED, Fault, Phase, Schedule

AFTER = 0.1  # seconds between two answers to one message,
AT_ONCE = 5.0  # but for faults with an amount below this
FIRST_ID = 1000
PHASES = {
    wire.READY_QUERY: Phase.READY, MessageType.TRAIN: Phase.TRAIN, MessageType.EVALUATE: Phase.EVALUATE
}  # fmt: skip


@dataclass(frozen=True)
class Arrival:
    """One report on its way to the server.

    Parameters
    ----------
    due
        When it arrives.
    fate
        What must become of it if it is the first of its node and in time: reported, refused, failed.
    """

    due: float
    fate: str
    goes_beyond: bool = False


@dataclass(frozen=True)
class Asked:
    """One instruction that the server has sent."""

    at: At
    partition: int
    sent: float
    arrivals: tuple[Arrival, ...]


class Trained(NamedTuple):
    """An honest node's answer to a state.

    Parameters
    ----------
    change
        By how much, as the server hears of it: NaN where nothing was sent.
    examples
        Of how many examples.
    made
        The state afterwards.
    """

    change: State
    examples: int
    made: State


class Network(Grid):
    """A Flower grid on a clock that is moved by hand; where a schedule says so, a simulation on virtual time.

    Attributes
    ----------
    asked
        Every instruction that was sent.
    measured
        Every state that was sent to be measured.
    told
        Every notice: (round, attempt, partition, word).
    down, up, protocol
        Bytes that have gone over the network.
    trained
        (round, attempt, partition) -> what the honest report holds.
    seconds
        Of virtual time, in the sessions before this one.
    ledgers
        Node -> the (round, attempt) that it has paid for, in order: a simulation's are gone with its process, but for
        those that the server gives back.
    """

    def __init__(self, schedule: Schedule, story: Callable[[str], None] | None) -> None:
        self.clock = ManualClock()
        self.asked: list[Asked] = []
        self.measured: list[Asked] = []
        self.told: list[tuple[int, int, int, str]] = []
        self.down = self.up = self.protocol = 0
        self.trained: dict[tuple[int, int, int], Trained] = {}
        self.seconds = 0.0
        self.ledgers: dict[int, list[At]] = {}
        self._changed: list[int] = []  # nodes whose ledgers were not stored since
        self.round_number = 1  # of the last message: ids of those that move go by it
        self._schedule = schedule
        self._story = story
        self._faults: dict[tuple[Phase, int, int, int], list[Fault]] = defaultdict(list)
        for fault in schedule.faults:
            self._faults[fault.phase, fault.round_number, fault.attempt, fault.partition].append(fault)
        self._jumped: set[Fault] = set()
        self._under_way: list[tuple[float, int, Message, str]] = []  # due, place, reply, booked as
        self._busy: dict[int, float] = {}  # node on virtual time -> until when it trains
        self._numbers = count(1)
        self._run = flower.empty_run()

    def restarted(self) -> None:
        """Forget what was on its way to a server that is no more; a simulation's own time begins anew."""
        self._under_way, self._jumped, self._busy = [], set(), {}
        self.ledgers, self._changed = {}, []
        if self._schedule.timed:
            self.seconds += self.clock.now()
            self.clock = ManualClock()

    # --- Flower's Grid ------------------------------------------------------------------------------------------------

    def set_run(self, run: Any) -> None:
        self._run = run

    @property
    def run(self) -> Any:
        return self._run

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise AssertionError("our server makes its messages itself")

    def get_node_ids(self) -> Iterable[int]:
        return [self._id_of(partition) for partition in range(self._schedule.clients)]

    def get_nodes(self) -> Iterable[flower.NodeInfo]:
        return [flower.NodeInfo(node_id=node_id, name="") for node_id in self.get_node_ids()]

    @property
    def offers(self) -> Offers:
        partitions = None if self._schedule.network else self._by_partition
        timed, keep = (self if is_so else None for is_so in (self._schedule.timed, self._schedule.private))
        return Offers(clock=self.clock, partitions=partitions, timed=timed, keep=keep)

    def _by_partition(self) -> list[int]:
        return list(self.get_node_ids())

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return [self._push(message) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        now = self.clock.now()
        if all(each[0] > now for each in self._under_way):
            return []
        wanted, here, others = set(message_ids), [], []
        for each in self._under_way:
            is_here = each[0] <= now and each[2].metadata.reply_to_message_id in wanted
            (here if is_here else others).append(each)
        self._under_way = others
        for _, _, reply, book in here:
            size = wire.bytes_of(reply.content) if reply.has_content() else 0
            if book == "up":
                self.up += size
            else:
                self.protocol += size
        return [reply for _, _, reply, _ in sorted(here, key=_when)]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))

    # --- ledgers, `fedlearn.aggregation.offers.Keeping` ---------------------------------------------------------------

    def kept_by(self, node_id: int) -> bytes:
        return json.dumps(self.ledgers.get(node_id, [])).encode()

    def keep(self, kept: Mapping[int, bytes]) -> None:
        self.ledgers |= {node: ledger_of(data) for node, data in kept.items()}

    def node_states(self) -> bytes:
        return packed((node, self.kept_by(node)) for node in sorted(self.ledgers))

    def changed_node_states(self, *, settled: bool = True) -> bytes:
        changed, self._changed = self._changed, []
        return packed((node, self.kept_by(node)) for node in dict.fromkeys(changed))

    def restore_node_states(self, data: bytes) -> None:
        self.keep(unpacked(data))

    def _pay(self, node_id: int, at: At) -> None:
        """Have a node write into its ledger what it is about to publish, once."""
        ledger = self.ledgers.setdefault(node_id, [])
        if at not in ledger:
            ledger.append(at)
            self._changed.append(node_id)

    # --- virtual time, `fedlearn.aggregation.offers.Timed` ------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        now = self.clock.now()
        coming = [each[0] for each in self._under_way if each[0] > now]
        self.clock.move_to(min([now + seconds, *coming]))

    def arrived(self) -> Collection[str]:
        now = self.clock.now()
        return [reply.metadata.reply_to_message_id for due, _, reply, _ in sorted(self._under_way, key=_when)
                if due <= now]  # fmt: skip

    def reachable(self) -> list[int]:
        return [node for node in self._by_partition() if self.is_reachable(node)]

    def is_reachable(self, node_id: int) -> bool:
        return self._busy.get(node_id, -math.inf) <= self.clock.now()

    def push_again(self, messages: Sequence[Message], begun: Sequence[float]) -> Sequence[str]:
        return [self._push(message, since) for message, since in zip(messages, begun, strict=True)]

    def group_of(self, node_id: int) -> str:
        return self.groups[0]

    @property
    def groups(self) -> Sequence[str]:
        return ("alike",)

    def described(self) -> Mapping[str, Any]:
        return {}

    def _train(self, message: Message, arrivals: Sequence[Arrival], until: float) -> None:
        """Have a node be busy until it answers, or would be stopped."""
        if self._schedule.timed:
            self._busy[message.metadata.dst_node_id] = min([until, *(each.due for each in arrivals)])

    def _stop(self, node_id: int) -> None:
        """Stop the work of a node that is notified that its round is over: it sends no report any more."""
        if self._schedule.timed and self._busy.pop(node_id, -math.inf) > self.clock.now():
            self._under_way = [
                each for each in self._under_way if each[3] != "up" or each[2].metadata.src_node_id != node_id
            ]

    # --- what becomes of one message ----------------------------------------------------------------------------------

    def _push(self, message: Message, since: float | None = None) -> str:
        node_id, kind = message.metadata.dst_node_id, message.metadata.message_type
        partition = self.partition_of(node_id)
        if kind == wire.ROUND_OVER:
            return self._tell(message, partition)
        phase = PHASES[kind]
        at = _at_of(message, phase)
        self.round_number = max(at.round_number, self.round_number)
        faults = {fault.what: fault for fault in self._faults[phase, *at, partition]}
        self._jump(phase, at)
        since = self.clock.now() if since is None else since
        if node_id != self._id_of(partition) or "gone" in faults:
            self._say(f"{phase} to partition {partition}: it is not connected")
            return ""
        size = wire.bytes_of(message.content)
        self.down += size * (phase is not Phase.READY)
        self.protocol += size * (phase is Phase.READY)
        name = self._named(message)
        is_silent = {"lost", "unanswered", "crashed"} & faults.keys()
        answers = [] if is_silent else self._answers(message, phase, at, partition, faults)
        longest = message.metadata.ttl if self._schedule.timed else math.inf  # virtual nodes are stopped then
        arrivals = []
        for seconds, content, fate in answers:
            if seconds > longest:
                continue
            due = since + seconds
            reply = _reply(message, content)
            self._under_way.append((due, next(self._numbers), reply, "up" if phase is Phase.TRAIN else "protocol"))
            arrivals.append(Arrival(due, fate, goes_beyond=not BEYOND.keys().isdisjoint(faults)))
        if phase is Phase.TRAIN:
            self.asked.append(Asked(at, partition, since, tuple(arrivals)))
            self._train(message, arrivals, since + longest)
        elif phase is Phase.EVALUATE:
            self.measured.append(Asked(at, partition, since, tuple(arrivals)))
        if self._story:
            what = f" ({', '.join(faults)})" if faults else ""
            times = [round(each.due, 2) for each in arrivals]
            self._story(f"{phase} to partition {partition}{what}, answers at {times}")
        return name

    def _say(self, line: str) -> None:
        if self._story:
            self._story(line)

    def _named(self, message: Message) -> str:
        name = f"m{next(self._numbers)}"
        message.metadata.__dict__["_message_id"] = name
        return name

    def _tell(self, message: Message, partition: int) -> str:
        told = message.content[wire.CONFIG]
        assert isinstance(told, ConfigRecord)
        self._stop(message.metadata.dst_node_id)
        if message.metadata.dst_node_id != self._id_of(partition):
            return ""
        self.told.append((int(told["round_number"]), int(told["attempt"]), partition, str(told["why"])))  # type: ignore[arg-type]
        self._say(f"notice to partition {partition}: {told['why']}")
        self.protocol += wire.bytes_of(message.content)
        name = self._named(message)
        self._under_way.append((self.clock.now(), next(self._numbers), _reply(message, RecordDict()), "protocol"))
        return name

    def _jump(self, phase: Phase, at: At) -> None:
        for fault in self._faults[phase, *at, -1]:
            if fault not in self._jumped:
                self._jumped.add(fault)
                self._say(f"the clock jumps by {fault.amount:g} s")
                self.clock.sleep(fault.amount)

    def _answers(
        self, message: Message, phase: Phase, at: At, partition: int, faults: Mapping[str, Fault]
    ) -> list[tuple[float, RecordDict | Error, str]]:
        """Return when answers come, what they hold, and what must become of each if it comes first and in time."""
        content: RecordDict | Error
        spoiled: tuple[RecordDict, str] = (RecordDict(), "")
        seconds = self._schedule.paces[partition]
        if phase is Phase.READY:
            content, fate = _said(partition, faults, self._schedule.clients), ""
        elif phase is Phase.EVALUATE:
            content, fate = _measured(partition, at.round_number, faults)
            spoiled = _mismeasured("measures-nan", partition, at.round_number), "refused"
            seconds = 0.0 if self._schedule.timed else seconds
        else:
            self._pay(message.metadata.dst_node_id, at)
            honest = self._trained(message, at, partition)
            content, fate = _spoiled(honest, faults, at)
            if {"repeated", "forged"} & faults.keys():
                spoiled = _flipped(honest), "refused"
        if "raised" in faults:
            content, fate = Error(int(ErrorCode.CLIENT_APP_RAISED_EXCEPTION), f"partition {partition} raised"), "failed"
        seconds = faults["slow"].amount if "slow" in faults else seconds
        answers = [(seconds, content, fate)]
        for what, fault in faults.items():
            after = 0.0 if fault.amount < AT_ONCE else AFTER  # at once: the server hears both in one look
            if what == "doubled":
                answers.append((seconds + after, content, fate))
            elif what == "repeated":
                answers.append((seconds + after, *spoiled))
            elif what == "forged":
                answers.insert(0, (seconds - after, *spoiled))
        return answers

    def _trained(self, message: Message, at: At, partition: int) -> RecordDict:
        """Return the report of an honest node; that of every attempt is another one."""
        state = wire.read_state(message.content)
        changes = _changes(partition, at, tuple((name, array.shape) for name, array in state.items()))
        after = {name: array + changes[name] for name, array in state.items()}
        examples = 10 * (partition + 1)
        change = {name: after[name] - state[name] for name in state}
        instruction, sent = wire.read_instruction(message.content), self._schedule.settings["compression"]
        payload, came = _encoded(
            sent["codec"], after if sent["send"] == "weights" else change,
            seed=_seed(self._schedule, instruction, partition),
        )  # fmt: skip
        if sent["send"] == "weights":
            came = {name: array - state[name] for name, array in came.items()}
        self.trained[*at, partition] = Trained(came, examples, {name: state[name] + came[name] for name in state})
        content = flower.filled(RecordDict(), {
            wire.ARRAYS: wire.pack_arrays(payload),
            wire.METRICS: flower.filled(MetricRecord(), {wire.NUM_EXAMPLES: examples, "train_loss": 0.5}),
            wire.REPORT: _label(self._schedule, instruction, partition),
        })  # fmt: skip
        wire.seal(content)
        return content

    # --- ids ----------------------------------------------------------------------------------------------------------

    def _id_of(self, partition: int) -> int:
        """Return the id of a node that is there now: another in each round, if it moves."""
        moves = self.round_number - 1 if partition in self._schedule.moving else 0
        return FIRST_ID + partition + 100 * moves

    def partition_of(self, node_id: int) -> int:
        """Return which partition the node of an id holds."""
        return (node_id - FIRST_ID) % 100


def ledger_of(data: bytes) -> list[At]:
    """Return the bookings of a ledger that is kept as bytes."""
    return [At(*entry) for entry in json.loads(data)]


def _when(under_way: tuple[float, int, Message, str]) -> tuple[float, int]:
    return under_way[:2]


@lru_cache(maxsize=4096)
def _changes(partition: int, at: At, shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> State:
    """Return an honest node's change in an attempt."""
    rng = np.random.default_rng([partition, *at])
    return {name: rng.uniform(1.0, 2.0, shape).astype(np.float32) for name, shape in shapes}


def _at_of(message: Message, phase: Phase) -> At:
    if phase is Phase.TRAIN:
        return wire.read_instruction(message.content).at
    if phase is Phase.EVALUATE:
        return At(int(wire.read_config(message.content)[wire.SERVER_ROUND]), 0)  # type: ignore[arg-type]
    asked = message.content[wire.CONFIG]
    return At(int(asked["round_number"]), int(asked["attempt"]))  # type: ignore[arg-type, index]


def _reply(message: Message, content: RecordDict | Error) -> Message:
    error, records = (content, None) if isinstance(content, Error) else (None, content)
    return flower.reply_from(
        node_id=message.metadata.dst_node_id, message_type=message.metadata.message_type,
        reply_to=message.metadata.message_id, content=records, error=error,
    )  # fmt: skip


def _said(partition: int, faults: Mapping[str, Fault], clients: int) -> RecordDict:
    """Return a node's answer to the ready query."""
    if "mumbling" in faults:
        return flower.filled(RecordDict(), {wire.CONFIG: MetricRecord({"partition_id": 1})})
    held = -1 if "nobody" in faults else (partition + 1) % clients if "thief" in faults else partition
    why_not = "busy" if "busy" in faults else ""
    said = flower.filled(ConfigRecord(), {"partition_id": held, "why_not": why_not})
    return flower.filled(RecordDict(), {wire.CONFIG: said})


def means_of(partition: int, round_number: int) -> tuple[int, dict[str, float]]:
    """Return on how many examples an honest node measures a state, and what."""
    return 3 * partition + 1, {"loss": 1.0 / (partition + round_number), "accuracy": 1.0 / (partition + 2)}


def _measured(partition: int, round_number: int, faults: Mapping[str, Fault]) -> tuple[RecordDict, str]:
    """Return a node's measurement of a state, and its expected outcome."""
    lie = next((what for what in faults if what in MISMEASURED), "")
    fate = "" if lie == "measures-other" else "refused" if lie else "reported"  # what most have measured is not refused
    return _mismeasured(lie, partition, round_number), fate


def _mismeasured(lie: str, partition: int, round_number: int) -> RecordDict:
    examples, means = means_of(partition, round_number)
    values: dict[str, Any] = {wire.NUM_EXAMPLES: examples, **means}
    values |= {
        "measures-nan": {"loss": math.nan}, "measures-beyond": {"accuracy": 2.0},
        "measures-nothing": {wire.NUM_EXAMPLES: 0}, "measures-half": {wire.NUM_EXAMPLES: 0.5},
        "measures-many": {wire.NUM_EXAMPLES: 10**12}, "measures-other": {"guess": 1.0},
    }.get(lie, {})  # fmt: skip
    records = {} if lie == "says-nothing" else {wire.METRICS: flower.filled(MetricRecord(), values)}
    return flower.filled(RecordDict(), records)


def _encoded(codec: str, arrays: State, *, seed: int) -> tuple[Payload, State]:
    """Return the encoded arrays, and the decoded ones: NaN where no value was sent."""
    if codec == "identity":
        return arrays, arrays
    coding = _codec(codec)
    payload = coding.encode(arrays, seed=seed)
    came = {name: np.full(array.size, np.nan, np.float32) for name, array in arrays.items()}
    for name, entries in coding.decode(payload, layout=layout_of(arrays), seed=seed).items():
        came[name][slice(None) if entries.positions is None else entries.positions] = entries.values
    return payload, {name: came[name].reshape(array.shape) for name, array in arrays.items()}


@lru_cache
def _codec(name: str) -> Codec:
    return load_codec(CompressionSettings(codec=name, send="update"))


def _seed(schedule: Schedule, instruction: Instruction, partition: int) -> int:
    return report_seed(schedule.settings["seed"], round_number=instruction.round_number, node=partition)


def _label(schedule: Schedule, instruction: Instruction, partition: int, **other: Any) -> ConfigRecord:
    seed, sends = _seed(schedule, instruction, partition), schedule.settings["compression"]["send"]
    label = wire.report_record(instruction, partition_id=partition, seed=seed, sends=sends)
    label.update(other)
    return label


def _spoiled(honest: RecordDict, faults: Mapping[str, Fault], at: At) -> tuple[RecordDict, str]:
    """Return the report that a node sends in place of its honest one, and its expected outcome."""
    for what in faults:  # at most one is about what a report holds
        if what in _MAKERS:
            return _MAKERS[what](_copied(honest), at), "refused" if what in LIES else "reported"
    return honest, "reported"


def _copied(content: RecordDict) -> RecordDict:
    return flower.from_bytes(flower.to_bytes(content))


def _flipped(content: RecordDict, *_: Any) -> RecordDict:
    return _with_data(content, lambda data: data[:-1] + bytes([data[-1] ^ 64]))


def _with_data(content: RecordDict, change: Callable[[bytes], bytes]) -> RecordDict:
    """Change the bytes of the first array, on the way: the seal is that of what was."""
    content = _copied(content)
    if record := next(iter(flower.records_of(content, type(wire.pack_arrays({})))), None):
        for name, array in list(record.items())[:1]:
            record[name] = flower.array_of(array.dtype, array.shape, array.stype, change(array.data))
    return content


def _arrays(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[RecordDict, At], RecordDict]:
    def made(content: RecordDict, _: At) -> RecordDict:
        content[wire.ARRAYS] = wire.pack_arrays(change(dict(wire.unpack_arrays(content[wire.ARRAYS]))))  # type: ignore[arg-type]
        wire.seal(content)
        return content

    return made


def _metric(**values: Any) -> Callable[[RecordDict, At], RecordDict]:
    def made(content: RecordDict, _: At) -> RecordDict:
        content[wire.METRICS].update(values)  # type: ignore[union-attr]
        wire.seal(content)
        return content

    return made


def _says(change: Callable[[ConfigRecord, At], Mapping[str, Any]]) -> Callable[[RecordDict, At], RecordDict]:
    def made(content: RecordDict, at: At) -> RecordDict:
        label = wire.read_report(content)
        label.update(change(label, at))
        wire.seal(content)
        return content

    return made


def _without(key: str) -> Callable[[RecordDict, At], RecordDict]:
    def made(content: RecordDict, _: At) -> RecordDict:
        del content[key]
        return content

    return made


def _with_parcel(content: RecordDict, _: At) -> RecordDict:
    content["guest"] = wire.pack_arrays({"w": np.zeros(2, np.float32)})
    wire.seal(content)
    return content


def _spoil(value: float) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def made(arrays: dict[str, Any]) -> dict[str, Any]:
        changed = {name: array.copy() for name, array in arrays.items()}
        numbers = next(array for array in changed.values() if array.dtype.kind == "f").reshape(-1)
        numbers[random.Random(numbers.size).randrange(len(numbers))] = value
        return changed

    return made


_MAKERS: dict[str, Callable[[RecordDict, At], RecordDict]] = {
    "flipped": _flipped,
    "cut": lambda content, _: _with_data(content, lambda data: data[:-3]),
    "nan": _arrays(_spoil(np.nan)),
    "infinite": _arrays(_spoil(np.inf)),
    "no-examples": _metric(**{wire.NUM_EXAMPLES: 0}),
    "many-examples": _metric(**{wire.NUM_EXAMPLES: 10**12}),
    "half-example": _metric(**{wire.NUM_EXAMPLES: 0.5}),
    "next-round": _says(lambda _, at: {"round_number": at.round_number + 1}),
    "other-attempt": _says(lambda _, at: {"attempt": at.attempt + 1}),
    "other-place": _says(lambda label, _: {"position": label["position"] + 1}),  # type: ignore[operator]
    "other-partition": _says(lambda label, _: {"partition_id": label["partition_id"] + 1}),  # type: ignore[operator]
    "other-seed": _says(lambda label, _: {"seed": label["seed"] + 1}),  # type: ignore[operator]
    "other-kind": _says(lambda label, _: {"sends": "weights" if label["sends"] == "update" else "update"}),
    "stale": _says(lambda _, at: {"round_number": at.round_number, "attempt": at.attempt - 1}),
    "shape": _arrays(lambda arrays: {name: array.reshape(-1)[:-1] for name, array in arrays.items()}),
    "dtype": _arrays(lambda arrays: {name: array.astype(np.float64) for name, array in arrays.items()}),
    "positions": _arrays(lambda arrays: {**arrays, "float32/positions": np.full(1, 255, np.uint8)}),
    "bloated": _metric(**{f"of batch {number}": 0.0 for number in range(MOST_ENTRIES)}),
    "weighty": _metric(**{wire.NUM_EXAMPLES: 10_000_000}),
    "nameless": _arrays(lambda arrays: {**arrays, "nobody": np.zeros(1, np.float32)}),
    "parcel": _with_parcel,
    "unlabelled": _without(wire.REPORT),
    "empty": _without(wire.ARRAYS),
    "odd-metric": _metric(train_loss=float("nan")),
    "far": _arrays(
        lambda arrays: {
            name: array * 1000 + 1000 if array.dtype.kind == "f" else array for name, array in arrays.items()
        }
    ),
}
