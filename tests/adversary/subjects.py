"""The targets of the attacks, and the checks that an attack has not succeeded.

Each subject has honest messages, spoils one of them and looks at what becomes of it: `attack` returns how many were
checked and how many accepted, raises `Wrong` where something was accepted that must not be, and whatever else the code
under attack raises. Subjects are made from the tables: a codec stage in CODECS, a row of trees in MODELS, a schedule in
SCHEDULES has its subjects as soon as it has its line.
"""

from __future__ import annotations

import json
import math
import random
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict

from client.answer import RESIDUAL
from client.app import app as client_app
from fedlearn import flower, wire
from fedlearn.aggregation import STATE, Fold, FoldPlan, ParcelPlan, Verdict
from fedlearn.compression import CODECS, load_codec, parcel_codec
from fedlearn.config import config_from, from_flower, to_flower
from fedlearn.core.cohort import At, Fate, Instruction, Member, Typical
from fedlearn.core.errors import CheckpointError, Refused, RunFailed, SettingError
from fedlearn.core.metric import EPSILON
from fedlearn.core.seeding import parcel_seed, report_seed
from fedlearn.core.state import Layout, State, Update, UpdateKind, layout_of
from fedlearn.engine.node_calls import handled, run_node
from fedlearn.engine.virtual_nodes import PromptNodes
from fedlearn.models import MODELS
from fedlearn.models.loaded import initial_state, loaded
from fedlearn.models.presets import settings_from
from fedlearn.models.sums import SumsModel
from fedlearn.private_trees.federated.models.forest import ForestModel
from server.exchange.grids import BoxingGrid
from server.gate.gate import ReportGate
from server.schedules import SCHEDULES
from strategies import load_strategy
from tests.adversary import tiny
from tests.adversary.mutations import spoiled, spoiled_bytes
from tests.oracles import forests
from tests.oracles.cohorts import after, plan_for
from tests.plain_reports import dense_report
from tests.unit.server.scripted import NetworkGrid, Node, Scene, made_nodes

NODE, PARTITION, POSITION = 12, 2, 1
MEMBER = Member(NODE, PARTITION, POSITION)
LONGEST_REASON = 500  # characters
MOST_EXAMPLES = 10_000_000
MEAN = "strategies.masked_mean:MaskedSum"


class Wrong(Exception):
    """Something came through that must not."""


class Subject(Protocol):
    """Something that is attacked."""

    name: str

    def attack(self, rng: random.Random) -> tuple[int, int]:
        """Spoil something and look at what becomes of it; return how many were checked, how many accepted."""
        ...


def subjects() -> list[Subject]:
    """Return all that is attacked, in a fixed order."""
    plugins = [*_reports_of_codecs(), *_reports_of_trees(), *_runs()]
    return [*plugins, ReadyAnswers(), Instructions(), *(Memories(name) for name in Memories.WAYS), NodeStates()]


def check(condition: object, what: str, *values: object) -> None:
    """Raise `Wrong` unless the condition holds."""
    if not condition:
        raise Wrong(f"{what}: {values!r:.200}" if values else what)


def check_said(text: object) -> None:
    """A reason is one short line that a terminal can take."""
    check(isinstance(text, str) and text.isprintable() and len(text) <= LONGEST_REASON, "a reason", text)


# --- reports ----------------------------------------------------------------------------------------------------------


def check_verdict(verdict: Verdict, plan: FoldPlan) -> bool:
    """Check that a refused report adds nothing and an accepted report is sound; return which of the two it is."""
    report = verdict.report
    check(report.bytes_up >= 0, "bytes", report.bytes_up)
    if report.fate is not Fate.REPORTED:
        check(not verdict.parcels, "a refused report brings parcels")
        check(report.reason, "a refused report has no reason")
        check_said(report.reason)
        return False
    count = report.num_examples
    check(type(count) is int and 1 <= count <= MOST_EXAMPLES, "examples", count)
    check(all(map(math.isfinite, report.metrics.values())), "metrics", report.metrics)
    check(report.metrics.keys() <= {*plan.metrics}, "metrics", report.metrics)
    check(verdict.parcels.keys() == plan.parcels.keys(), "parcels", list(verdict.parcels))
    if plan.kind.is_averaged:
        for name, update in verdict.parcels.items():
            check_update(update, plan.parcels[name].layout)
    return True


def check_update(update: Update, layout: Layout) -> None:
    """Entries of the layout and no others, finite, each at most once."""
    for name, entries in update.items():
        check(name in layout, "a parameter", name)
        spec, values, positions = layout[name], entries.values, entries.positions
        check(values.dtype == spec.dtype and values.ndim == 1, "dtype or shape", name, values)
        check(values.dtype.kind != "f" or np.isfinite(values).all(), "not finite", name)
        if positions is None:
            check(len(values) == spec.size, "entries", name, len(values))
        else:
            check(positions.dtype.kind in "iu" and positions.shape == values.shape, "positions", name)
            inside = not len(positions) or (positions[0] >= 0 and positions[-1] < spec.size)
            check(inside and (positions[1:] > positions[:-1]).all(), "positions", name, positions)


@dataclass
class Reports:
    """Reports that come before the gate.

    Parameters
    ----------
    made
        Returns the plan and honest reports; called once.
    look
        Looks further at what was accepted.
    """

    name: str
    made: Callable[[], tuple[FoldPlan, list[RecordDict]]]
    look: Callable[[Verdict, FoldPlan], None]

    def __post_init__(self) -> None:
        self._made = cache(self.made)
        self._gate: ReportGate | None = None
        self._sent = RecordDict({wire.ARRAYS: wire.pack_arrays(MODEL_STATE)})
        self._warm = False

    def attack(self, rng: random.Random) -> tuple[int, int]:
        plan, honest = self._made()
        if not self._warm:
            self._try(plan, honest)
        content = spoiled(rng.choice(honest), rng)
        if rng.random() < 0.05:  # as it comes over a network: in a box, of which bytes may have changed
            content = _through_a_box(content, rng)
        return 1, self._check(content, plan)

    def _check(self, content: RecordDict, plan: FoldPlan) -> bool:
        reply = flower.reply_from(node_id=NODE, message_type="train", reply_to="m", content=content, error=None)
        self._gate = self._gate or ReportGate(plan)
        verdict = self._gate.check(reply, MEMBER, self._sent)
        accepted = check_verdict(verdict, plan)
        if accepted:
            self._gate = None  # it takes no second report of the same node
            self.look(verdict, plan)
        return accepted

    def _try(self, plan: FoldPlan, honest: list[RecordDict]) -> None:
        """Load what is loaded at first use, and see that what is honest is accepted."""
        for content in honest:
            check(self._check(content, plan), "an honest report is refused", self.name)
        self._warm = True


def _through_a_box(content: RecordDict, rng: random.Random) -> RecordDict:
    """Unpack a small box of all records, or a large one of each record of arrays."""
    boxed = RecordDict(dict(content.items()))
    if rng.random() < 0.5:
        data = spoiled_bytes(wire.packed(boxed), rng)
        boxed = RecordDict({wire.BOX: ConfigRecord({wire.BOX: data})})
    for key in wire.arrays.array_keys(boxed):
        data = spoiled_bytes(wire.packed({wire.BOX: boxed[key]}), rng)
        array = flower.array_of("uint8", (len(data),), wire.BOX, data)
        boxed[key] = flower.filled(ArrayRecord(), {wire.BOX: array})
    return flower.from_bytes(flower.to_bytes(boxed)) if _opens(boxed) else boxed


def _opens(content: RecordDict) -> bool:
    try:
        return wire.unbox(content)
    except Refused:
        return False  # it stays closed, and the gate sees it so


# --- of codecs --------------------------------------------------------------------------------------------------------

AROUND = (
    "{}", "drop:0.3,{}", "top-k:0.2,{}", "rand-k:0.3,{}", "residual,{}", "residual,top-k:0.1,{}", "{},entropy",
    "rotate,{}", "drop:0.3,rotate,{},entropy", "residual,top-k:0.2,{},entropy", "{},quantize:3", "{},eden:2",
    "{},rotate,quantize:4,entropy",
)  # fmt: skip
"""Chains that a stage is tried in; those that cannot be are left out."""


def chains() -> list[str]:
    """Return the chains of all stages of the table that fit together."""
    texts = dict.fromkeys(around.format(name) for name, around in product(CODECS, AROUND))
    return [text for text in texts if _fits(text)]


def _fits(text: str) -> bool:
    try:
        parcel_codec(text)
    except SettingError:
        return False
    return True


MODEL_STATE = {
    "w": np.linspace(-1, 1, 300, dtype=np.float32).reshape(20, 15),
    "half": np.linspace(0, 3, 12, dtype=np.float16),
    "none": np.zeros((0, 4), np.float32),
    "double": np.linspace(-2, 2, 30).reshape(5, 6),
    "steps": np.array(7, np.int64),
    "flags": np.arange(4, dtype=np.uint8),
    "one": np.float32([0.5]),
}
CONTROL = {"c": np.linspace(-3, 3, 40, dtype=np.float32), "n": np.array([7], np.int64)}


def _reports_of_codecs() -> Iterator[Reports]:
    for chain in chains():
        yield Reports(f"codec {chain}", partial(reports_by, chain), _fold)
    tensors = {"compression.granularity": "tensor"}
    yield Reports("codec drop:0.5 of tensors", partial(reports_by, "drop:0.5", **tensors), _fold)
    for chain in ("identity", "drop", "drop:0.5,fp16"):  # their norms are of what is left without the state
        yield Reports(f"codec {chain}, weights", partial(reports_by, chain, **{"compression.send": "weights"}), _fold)


def reports_by(chain: str, **settings: Any) -> tuple[FoldPlan, list[RecordDict]]:
    """Return the plan of a round whose nodes send by a chain, a parcel beside the state too, and honest reports."""
    config = config_from({"compression.codec": chain, "compression.send": "update", **settings})
    control = ParcelPlan(layout_of(CONTROL), MEAN, uniform=True, codec=chain)
    plan = plan_for(MEAN, MODEL_STATE, settings=to_flower(config), control=control)
    plan = replace(plan, typical=Typical(norm=100.0, num_examples=10), cohort=5)
    rng = np.random.default_rng(1)
    scales = (1.0, 0.0, 1e-3)
    return plan, [_report_of(config, _changes(MODEL_STATE, rng, s), _changes(CONTROL, rng, s)) for s in scales]


def _changes(state: State, rng: np.random.Generator, scale: float) -> State:
    return {
        name: (rng.normal(0, scale, array.shape).astype(array.dtype) if array.dtype.kind == "f" else array)
        for name, array in state.items()
    }


def _report_of(config: Any, change: State, control: State) -> RecordDict:
    message = Message(RecordDict({wire.ARRAYS: wire.pack_arrays(MODEL_STATE)}), NODE, "train")
    asked = wire.with_instruction(message, Instruction(1, 1, POSITION), ttl=60.0)
    seed = report_seed(config.seed, round_number=1, node=PARTITION)
    codec, beside = load_codec(config.compression), parcel_codec(config.compression.codec)
    parcels = {"control": beside.encode(control, seed=parcel_seed(seed, "control"))}
    content = dense_report(asked, codec.encode(change, seed=seed), {"train_loss": 0.5}, 10, parcels).content
    sends = config.compression.send
    content[wire.REPORT] = wire.report_record(
        Instruction(1, 1, POSITION), partition_id=PARTITION, seed=seed, sends=sends
    )
    wire.seal(content)
    return content


def _fold(verdict: Verdict, plan: FoldPlan) -> None:
    """Accepted reports can be added up."""
    if verdict.report.num_examples % 8 == 2:  # of honest ones, and some others
        Fold(plan).of([verdict])


# --- of trees ---------------------------------------------------------------------------------------------------------

NUMBERS, CLASSES = (partial(forests.dataset, schema) for schema in (forests.REGRESSION, forests.CLASSIFICATION))


def numbers(data_dir: str) -> Any:
    """Return the data set of models that predict numbers."""
    return NUMBERS()


def classes(data_dir: str) -> Any:
    """Return the data set of models that predict classes."""
    return CLASSES()


def _reports_of_trees() -> Iterator[Reports]:
    for name, row in MODELS.items():
        if row.is_private:  # exact sums are sent under masks alone
            kind, look = ("sums", _look_at_sums) if row.sums else ("trees", _look_at_trees)
            for round_number in (1, 2):
                title = f"{kind} {name}, round {round_number}"
                yield Reports(title, partial(_grown_by, name, round_number), partial(look, name))


@cache
def _tree_settings(name: str) -> Mapping[str, Any]:
    """Return settings under which a model grows small trees, on the data set of its kind."""
    tried = ('{"max_depth": 3}', "", '{"event": "a"}', '{"family": "normal"}')
    for options, data in product(tried, ("numbers", "classes")):
        flat = {
            "clients": 3, "data.dataset": f"{__name__}:{data}", "model.name": name, "model.options": options,
            "privacy.noise": "seeded", "privacy.epsilon": 50.0, "gate.max_examples": 1000,
        }  # fmt: skip
        settings = to_flower(settings_from(flat))
        with suppress(SettingError):  # it predicts the other kind, or has no such option
            initial_state(settings, {})
            return settings
    raise AssertionError(f"{name} takes neither numbers nor classes")


def _grown_by(name: str, round_number: int) -> tuple[FoldPlan, list[RecordDict]]:
    settings = _tree_settings(name)
    state = initial_state(settings, {})
    if round_number > 1:
        state = wire.unpack_arrays(wire.state_record(_grown(settings, state, 1)))
    strategy = load_strategy(from_flower(settings).strategy)
    at = At(round_number, 1)
    kind = UpdateKind.SUMS if MODELS[name].sums else UpdateKind.ENSEMBLE
    plan = plan_for(strategy.accumulator, state, settings=settings, kind=kind, at=at, measured=[EPSILON])
    return plan, [_grown(settings, state, round_number)]


def _grown(settings: Mapping[str, Any], state: State, round_number: int) -> RecordDict:
    message = Message(RecordDict({wire.ARRAYS: wire.pack_arrays(state)}), PARTITION + 2, "train")
    asked = wire.with_instruction(message, Instruction(round_number, 1, POSITION), ttl=60.0)
    reply, _ = run_node(client_app, flower.with_id(asked), b"", num_nodes=3, settings=dict(settings))
    check(reply.has_content(), "an honest node fails", reply)
    return reply.content


def _look_at_trees(name: str, verdict: Verdict, plan: FoldPlan) -> None:
    """Walk every path of what was accepted, slowly; let the strategy take it, and the model predict by it."""
    config = from_flower(plan.settings)
    dataset, model = loaded(config)
    assert isinstance(model, ForestModel)
    arrays = {key: entries.values for key, entries in verdict.parcels[STATE].items()}
    arrays["value"] = arrays["value"].reshape(-1, model.outputs)
    low, high = model.value_bounds(plan.layout)
    check_trees(arrays, features=len(model.schema.features), sizes=model.sizes, low=low, high=high)
    before = {key: np.zeros(spec.shape, spec.dtype) for key, spec in plan.layout.items()}
    if not len(before["root"]):
        total = Fold(plan).of([verdict])[STATE]
        state = after(load_strategy(config.strategy), before, total, round_number=plan.at.round_number)
        means = model.evaluate(state, dataset.test.at(slice(0, 20))).means
        check(all(np.isfinite(value) for value in means.values()), "measured", name, means)


def _look_at_sums(name: str, verdict: Verdict, plan: FoldPlan) -> None:
    """One report that is no larger than records can make it; let the strategy take it, and the model predict by it."""
    config = from_flower(plan.settings)
    dataset, model = loaded(config)
    arrays = {key: entries.values for key, entries in verdict.parcels[STATE].items()}
    check(arrays["reports"].tolist() == [1], "reports", arrays["reports"])
    assert isinstance(model, SumsModel)
    one, norm = model.reach(plan.at.round_number, max_examples=config.gate.max_examples)
    sizes = [abs(number) for number in arrays["sums"].tolist()]
    check(max(sizes) <= one <= 2**42 and sum(sizes) <= norm, "sums of that size", max(sizes), sum(sizes))
    before = {key: np.zeros(spec.shape, spec.dtype) for key, spec in plan.layout.items()}
    if not len(before["reports"]):
        total = Fold(plan).of([verdict])[STATE]
        state = after(load_strategy(config.strategy), before, total, round_number=plan.at.round_number)
        means = model.evaluate(state, dataset.test.at(slice(0, 20))).means
        check(all(np.isfinite(value) for value in means.values()), "measured", name, means)


def check_trees(arrays: State, *, features: int, sizes: Any, low: float, high: float) -> None:
    """Every node is reached once, from one root, within 32 steps; what it tests and says is declared."""
    feature, first, number = (arrays[key].tolist() for key in ("feature", "first_child", "num_children"))
    threshold, value, weight = arrays["threshold"].tolist(), arrays["value"], arrays["weight"]
    check(len({len(feature), len(first), len(number), len(threshold), len(value)}) == 1, "columns of several lengths")
    check(len(weight) == len(arrays["root"]) > 0, "no roots, or not as many weights")
    check((weight > 0).all() and abs(weight.sum() - 1) < 1e-6, "weights")
    check(np.isfinite(value).all() and (value >= low).all() and (value <= high).all(), "a value out of bounds")
    seen: set[int] = set()
    paths = [(root, 0) for root in arrays["root"].tolist()]
    while paths:
        node, depth = paths.pop()
        check(0 <= node < len(feature) and node not in seen and depth <= 32, "a path", node, depth)
        seen.add(node)
        check(-1 <= feature[node] < features and math.isfinite(threshold[node]), "a test", node, feature[node])
        wanted = 0 if feature[node] < 0 else (sizes[feature[node]] if sizes is not None else 0) or 2
        check(number[node] == wanted, "children", node, number[node])
        paths += [(first[node] + child, depth + 1) for child in range(wanted)]
    check(len(seen) == len(feature), "nodes that no root leads to")


# --- whole runs -------------------------------------------------------------------------------------------------------

HONEST, HOSTILE = 6, 18


class HostileGrid(NetworkGrid):
    """Spoils whatever the hostile nodes answer: ready answers, reports, evaluations, answers to notices."""

    def __init__(self, clock: Any, nodes: Mapping[int, Node], *, rng: random.Random) -> None:
        super().__init__(clock, nodes)
        self.rng = rng
        self.sent = 0

    def _replies(self, message: Message, node: Node) -> list[tuple[float, Message]]:
        is_boxed = wire.unbox(message.content)
        replies = super()._replies(message, node)
        for _, reply in replies:
            if is_boxed and reply.has_content():
                wire.box(reply.content)
        if node.partition_id < HONEST:
            return replies
        return [each for after_seconds, reply in replies for each in self._spoiled(after_seconds, reply)]

    def _spoiled(self, seconds: float, reply: Message) -> list[tuple[float, Message]]:
        rng = self.rng
        self.sent += 1
        if rng.random() < 0.05:
            reply = Message(Error(rng.randrange(9), rng.choice(["", "\x1b[2J", "x" * 10_000, "a\nb"])), reply_to=reply)
        elif rng.random() < 0.5:
            about = reply.metadata
            reply = flower.reply_from(
                node_id=about.src_node_id, message_type=about.message_type, reply_to=about.reply_to_message_id,
                content=spoiled(reply.content, rng), error=None,
            )  # fmt: skip
        return [(seconds, reply)] * rng.choice([1, 1, 1, 2])


@dataclass
class Runs:
    """Whole runs of a schedule, three quarters of whose nodes are hostile, evaluated on the nodes."""

    name: str
    schedule: str

    def attack(self, rng: random.Random) -> tuple[int, int]:
        with tempfile.TemporaryDirectory() as folder:
            return self._run(Path(folder), rng)

    def _run(self, folder: Path, rng: random.Random) -> tuple[int, int]:
        grids: list[HostileGrid] = []

        def grid(clock: Any, nodes: Mapping[int, Node]) -> BoxingGrid:
            grids.append(HostileGrid(clock, nodes, rng=rng))
            return BoxingGrid(grids[-1])

        rounds = {
            "total": 2, "quorum": 0.1, "minimum_ready": 0.1, "selection_window": 5.0, "max_attempts": 2,
            "schedule": self.schedule,
        }  # fmt: skip
        scene = Scene(folder, made_nodes(HONEST + HOSTILE), grid=grid, rounds=rounds, evaluation={"where": "nodes"})  # type: ignore[arg-type]
        try:
            scene.run()
        except RunFailed as error:  # a state that is not finite is not committed
            check_said(str(error))
        finally:
            scene.log.__exit__(None, None, None)
        return grids[0].sent, self._look(scene)

    def _look(self, scene: Scene) -> int:
        honest = {node for node, each in scene.grid._grid.nodes.items() if each.partition_id < HONEST}
        reported = 0
        for line in scene.folder.events.read_text(encoding="utf-8").splitlines():
            check(len(line) < 3000, "a long line in the log", len(line))
            event = json.loads(line, parse_constant=partial(check, False))
            check_said(event.get("reason", ""))
            check(event["event"] != "refused" or event["node"] not in honest, "an honest report was refused", line)
            reported += event["event"] == "reported" and event["node"] not in honest
        for name, array in scene.store.state.items():
            check(array.dtype.kind != "f" or np.isfinite(array).all(), "the stored state is not finite", name)
        for record in scene.store.history.rounds:
            numbers_of = [value for value in record.as_row().values() if value is not None]
            check(all(np.isfinite(value) for value in numbers_of), "a row of the table", record)
        return reported


def _runs() -> Iterator[Runs]:
    for name in SCHEDULES:
        yield Runs(f"runs {name}", name)
    yield Runs("runs two_selections", "tests.end_to_end.plugins.two_selections:TwoSelections")


# --- single messages --------------------------------------------------------------------------------------------------


class ReadyAnswers:
    """A node's answer to the ready query."""

    name = "ready answers"

    def attack(self, rng: random.Random) -> tuple[int, int]:
        query = flower.with_id(wire.ready_query(NODE, round_number=1, attempt=1, ttl=60.0))
        why_not = rng.choice(["", "budget spent"])
        answer = wire.ready_answer(query, partition_id=rng.choice([0, 2, 2**62]), why_not=why_not)
        content = spoiled(answer.content, rng)
        reply = flower.reply_from(node_id=NODE, message_type="query", reply_to="m", content=content, error=None)
        partition_id, why = wire.read_ready_answer(reply)
        check(type(partition_id) is int and partition_id >= -1, "partition", partition_id)
        check(why or partition_id >= 0, "ready, and holds nothing")
        check_said(why)
        return 1, not why


@cache
def _tiny() -> dict[str, Any]:
    return to_flower(config_from(tiny.SETTINGS | tiny.OWING))


def _instruction() -> Message:
    state = tiny.Point().initial_state(seed=1)
    message = Message(RecordDict({wire.ARRAYS: wire.pack_arrays(state)}), PARTITION + 2, "train")
    return wire.with_instruction(message, Instruction(1, 1, POSITION), ttl=60.0)


def check_reply(reply: Message) -> bool:
    """A node answers, with an error or with a report; return whether with a report."""
    check(isinstance(reply, Message), "the node answers with", reply)
    return bool(reply.has_content())


class Instructions:
    """A server's message to a node, which answers whatever the message is."""

    name = "instructions to nodes"

    def attack(self, rng: random.Random) -> tuple[int, int]:
        asked = _instruction()
        about = asked.metadata
        message = flower.received(
            spoiled(asked.content, rng), node_id=about.dst_node_id, ttl=60.0, message_id="m",
            message_type=rng.choice(["train", "train", "train", "evaluate", "query.ready", "query.round_over"]),
        )  # fmt: skip
        reply, _ = run_node(client_app, message, b"", num_nodes=3, settings=_tiny())
        return 1, check_reply(reply)


@cache
def _honest_memory() -> bytes:
    """Return a node's memory after an honest round: a residual, and its status."""
    _, kept = run_node(client_app, flower.with_id(_instruction()), b"", num_nodes=3, settings=_tiny())
    check(f"memory.{RESIDUAL}" in flower.from_bytes(kept), "the node keeps no residual")
    return kept


@dataclass
class Memories:
    """A node's memory: a file of its own on a network, records in the run's checkpoint in a simulation."""

    way: str
    name: str = field(init=False)

    WAYS = ("damaged file", "forged file", "forged records")

    def __post_init__(self) -> None:
        self.name = f"memory, {self.way}"

    def attack(self, rng: random.Random) -> tuple[int, int]:
        kept = _honest_memory()
        data = (
            spoiled_bytes(kept, rng) if rng.random() < 0.5 else flower.to_bytes(spoiled(flower.from_bytes(kept), rng))
        )
        if self.way == "forged records":
            reply, _ = run_node(client_app, flower.with_id(_instruction()), data, num_nodes=3, settings=_tiny())
            return 1, check_reply(reply)
        with tempfile.TemporaryDirectory() as folder:
            return 1, self._from_a_file(Path(folder), data, rng)

    def _from_a_file(self, folder: Path, data: bytes, rng: random.Random) -> bool:
        name, honest = _honest_file()
        forged = sha256(data).digest() + data
        there = spoiled_bytes(honest, rng) if self.way == "damaged file" else forged
        (folder / name).write_bytes(there)
        reply = _answered_from(folder)
        if self.way == "damaged file" and there != honest:
            check(reply.has_error() and "the client's memory" in reply.error.reason, "a damaged memory was taken")
            check((folder / name).read_bytes() == there, "a damaged memory was written over")
        return check_reply(reply)


def _answered_from(folder: Path) -> Message:
    """Let a node answer that keeps its memory in a folder, as on a network."""
    node_config = {"partition-id": PARTITION, "num-partitions": 3, "memory": str(folder)}
    settings = _tiny() | {"out": "a run"}
    context = Context(run_id=1, node_id=NODE, node_config=node_config, state=RecordDict(), run_config=settings)
    return handled(client_app, flower.with_id(_instruction()), context)


@cache
def _honest_file() -> tuple[str, bytes]:
    """Return the name and the content of the file that a node leaves behind."""
    with tempfile.TemporaryDirectory() as folder:
        check_reply(_answered_from(Path(folder)))
        (file,) = Path(folder).iterdir()
        return file.name, file.read_bytes()


class _Kept(PromptNodes):
    def answer(self, messages: Any, *, seconds: float) -> Any:
        return []


class NodeStates:
    """All nodes' memories in the checkpoint, with a valid checksum: they are read, or named in one line."""

    name = "memories of a checkpoint"

    def attack(self, rng: random.Random) -> tuple[int, int]:
        nodes = _Kept(9, {})
        nodes.kept = {2: b"abc", 7: bytes(40), 2**40: b"x"}
        data = nodes.node_states()
        nodes.keep({7: b"other", 2: b""})
        data = spoiled_bytes(data + nodes.changed_node_states(), rng)
        try:
            nodes.restore_node_states(data)
        except CheckpointError as error:
            check_said(str(error))
            return 1, 0
        check(nodes.kept == _slowly_read(data), "other memories are read than were stored")
        return 1, 1


def _slowly_read(data: bytes) -> dict[int, bytes]:
    """Return each node's memory: of two entries of one name the later one counts."""
    kept: dict[int, bytes] = {}
    while data:
        node, length = struct.unpack_from("<QI", data)
        kept[node], data = data[12 : 12 + length], data[12 + length :]
    return {node: memory for node, memory in kept.items() if memory}
