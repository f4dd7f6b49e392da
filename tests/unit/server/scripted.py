"""A grid whose nodes do what a script says, at the times it says, on a clock that is moved by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.serverapp import Grid

from fedlearn import flower, wire
from fedlearn.aggregation.offers import Offers
from fedlearn.config import RunConfig, to_flower
from fedlearn.core.clock import ManualClock
from fedlearn.core.metrics import NEURAL_CLASSIFIER, Metrics
from fedlearn.core.seeding import report_seed
from fedlearn.core.state import UpdateKind
from fedlearn.data.cifar10 import SPEC
from fedlearn.models.loaded import Traits
from fedlearn.runs.checkpoint import RunStore
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.log import EventLog
from server.exchange.exchange import Exchange
from server.feature import features_of
from server.planning.run_plan import metrics_added, with_columns
from server.run import ServerRun
from server.schedules import load_schedule, metrics_of
from strategies.fedavg import FedAvg
from tests.plain_reports import dense_report

STATE = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "steps": np.array(4, np.int64)}


def answer(message: Message, content: RecordDict | None = None, error: Error | None = None) -> Message:
    return flower.reply_from(
        node_id=message.metadata.dst_node_id,
        message_type=message.metadata.message_type,
        reply_to=message.metadata.message_id,
        content=content,
        error=error,
    )


def trained(state: Mapping[str, np.ndarray], partition_id: int) -> dict[str, np.ndarray]:
    """A node's trained state, another one for each partition."""
    return {name: (array + array.dtype.type(partition_id + 1)).astype(array.dtype) for name, array in state.items()}


def honest_content(message: Message, partition_id: int, *, run_seed: int = 1) -> RecordDict:
    """The report that our own client would send, with as many examples as ten times its place."""
    state = wire.read_state(message.content)
    instruction = wire.read_instruction(message.content)
    reply = dense_report(message, trained(state, partition_id), {"train_loss": 0.5}, 10 * (partition_id + 1))
    seed = report_seed(run_seed, round_number=instruction.round_number, node=partition_id)
    reply.content[wire.REPORT] = wire.report_record(instruction, partition_id=partition_id, seed=seed, sends="weights")
    wire.seal(reply.content)
    return reply.content


@dataclass
class Node:
    """The script of one node.

    Parameters
    ----------
    ready_after, report_after, evaluate_after
        Seconds until it answers; None: never.
    connected
        Whether messages can be sent to it.
    key
        The name that its key was registered by.
    why_not
        Says that it is not ready, and why.
    failing
        Answers instructions with an error of this text.
    metrics, evaluated
        What it says of an evaluation, and on how many examples.
    ready, report
        (message, node) -> contents of its answers: one for each time that it answers.
    """

    partition_id: int
    ready_after: float | None = 0.0
    report_after: float | None = 0.0
    evaluate_after: float | None = 0.0
    connected: bool = True
    key: str = ""
    why_not: str = ""
    failing: str | None = ""
    ready: Callable[[Message, Node], list[RecordDict | Error]] | None = None
    report: Callable[[Message, Node], list[RecordDict | Error]] | None = None
    metrics: Mapping[str, Any] = field(default_factory=lambda: {"loss": 1.0, "accuracy": 0.5})
    evaluated: int = 10
    instructions: list[Any] = field(default_factory=list)
    run_seed: int = 1


class ScriptedGrid(Grid):
    """Delivers answers when their time has come."""

    def __init__(self, clock: ManualClock, nodes: Mapping[int, Node]) -> None:
        self.clock = clock
        self.nodes = dict(nodes)
        self.told: list[tuple[int, str, int, int]] = []  # (node, why, round, attempt)
        self.asked: list[int] = []
        self.evaluated: list[int] = []
        self._due: list[tuple[float, Message]] = []
        self._ids = count(1)
        self._run = flower.empty_run()

    def set_run(self, run: Any) -> None:
        self._run = run

    @property
    def run(self) -> Any:
        return self._run

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise AssertionError("our server makes its messages itself")

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    @property
    def offers(self) -> Offers:
        return Offers(clock=self.clock, partitions=self.nodes_by_partition)

    def nodes_by_partition(self) -> list[int]:
        return sorted(self.nodes, key=lambda node: (self.nodes[node].partition_id, node))

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            node = self.nodes[message.metadata.dst_node_id]
            if not node.connected:
                ids.append("")
                continue
            message.metadata.__dict__["_message_id"] = f"m{next(self._ids)}"
            ids.append(message.metadata.message_id)
            for seconds, reply in self._replies(message, node):
                self._due.append((self.clock.now() + seconds, reply))
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        wanted = set(message_ids)
        come = [r for t, r in self._due if t <= self.clock.now() and r.metadata.reply_to_message_id in wanted]
        self._due = [(t, r) for t, r in self._due if not any(r is other for other in come)]
        return come

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))

    def _replies(self, message: Message, node: Node) -> list[tuple[float, Message]]:
        kind = message.metadata.message_type
        if kind == wire.ROUND_OVER:
            told = message.content[wire.CONFIG]
            self.told.append((message.metadata.dst_node_id, told["why"], told["round_number"], told["attempt"]))
            return [(0.0, answer(message, RecordDict()))]
        if kind in (wire.READY_QUERY, wire.UNSENT_ARRAYS):
            self.asked.append(message.metadata.dst_node_id)
            after, contents = node.ready_after, self._ready(message, node)
        elif kind == "train":
            node.instructions.append(wire.read_instruction(message.content))
            after, contents = node.report_after, self._report(message, node)
        else:
            self.evaluated.append(message.metadata.dst_node_id)
            after, contents = (
                node.evaluate_after,
                [wire.metrics_report(message, dict(node.metrics), node.evaluated).content],
            )
        if after is None:
            return []
        return [
            (after, answer(message, error=c) if isinstance(c, Error) else answer(message, content=c)) for c in contents
        ]

    def _ready(self, message: Message, node: Node) -> list[RecordDict | Error]:
        if node.ready:
            return node.ready(message, node)
        said = ConfigRecord({"partition_id": node.partition_id, "why_not": node.why_not})
        return [RecordDict({wire.CONFIG: said})]

    def _report(self, message: Message, node: Node) -> list[RecordDict | Error]:
        if node.failing != "":
            return [Error(2, node.failing)]
        if node.report:
            return node.report(message, node)
        return [honest_content(message, node.partition_id, run_seed=node.run_seed)]


class NetworkGrid(ScriptedGrid):
    """Knows of its nodes no more than a network does: who is connected."""

    @property
    def offers(self) -> Offers:
        return Offers(clock=self.clock)

    def get_nodes(self) -> Iterable[flower.NodeInfo]:
        connected = {node_id: node for node_id, node in self.nodes.items() if node.connected}
        return [flower.NodeInfo(node_id=node_id, name=node.key) for node_id, node in connected.items()]


class Scene:
    """A run in a folder of its own, on a scripted grid."""

    unsent: Mapping[str, np.ndarray] = {}

    def __init__(
        self, folder: Path, nodes: Mapping[int, Node], *, strategy: Any = None,
        grid: type[ScriptedGrid] = ScriptedGrid, metrics: Metrics = NEURAL_CLASSIFIER, **settings: Any,
    ) -> None:  # fmt: skip
        self.clock = ManualClock()
        self.grid = grid(self.clock, nodes)
        self.folder = RunFolder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.config = config_of(len(nodes), settings)
        self.strategy = strategy or FedAvg()
        of_features = metrics_added(features_of(self.config, self.strategy), metrics)
        self.store = RunStore(folder, with_columns(metrics, (*metrics_of(load_schedule(self.config)), *of_features)))
        self.store.begin(STATE)
        self.log = EventLog(self.folder.events)
        self._serve()

    def _serve(self) -> None:
        exchange = Exchange(self.grid, to_flower(self.config))
        metrics = self.store.metrics
        traits = Traits(
            UpdateKind.DENSE, metrics, SPEC, is_private=metrics.privacy_loss is not None, unsent=self.unsent
        )  # fmt: skip
        self.server = ServerRun(exchange, self.strategy, self.store, self.config, events=self.log, traits=traits)

    def with_settings(self, **settings: Any) -> Scene:
        """Take the run up again, with other settings."""
        changed = self.config.model_dump()
        for name, table in settings.items():
            changed[name] |= table
        self.config = RunConfig.model_validate(changed)
        self._serve()
        return self

    def run(self) -> Scene:
        try:
            load_schedule(self.config)(self.server).run()
        finally:
            self.log.flush()
        return self

    @property
    def state(self) -> dict[str, np.ndarray]:
        return dict(self.store.state)

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        self.log.flush()
        lines = [json.loads(line) for line in self.folder.events.read_text(encoding="utf-8").splitlines()]
        return [line for line in lines if not kinds or line["event"] in kinds]

    def reasons(self, kind: str) -> dict[int, str]:
        """Return node -> reason of the events of a kind."""
        return {event["node"]: event["reason"] for event in self.events(kind)}


def config_of(clients: int, settings: Mapping[str, Any]) -> RunConfig:
    tables: dict[str, Any] = {
        "clients": clients,
        "rounds": {"total": 1, "cohort": 0, "invited": clients, "backoff": 1.0},
        "evaluation": {"where": "none"},
    }
    for name, value in settings.items():
        tables[name] = {**tables.get(name, {}), **value} if isinstance(value, dict) else value
    return RunConfig.model_validate(tables)


def made_nodes(number: int, **changes: Node) -> dict[int, Node]:
    """Return nodes whose ids do not reveal their partitions."""
    return {1000 + 7 * ((5 * partition) % number): Node(partition) for partition in range(number)}
