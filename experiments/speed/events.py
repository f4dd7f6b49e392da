"""Measure events per second of an asynchronous run on virtual time without training, and where the time goes.

    python -m experiments.speed.events --nodes 10000 --in-flight 1000 --trips 6000

FedBuff's schedule (100 reports a commit) keeps 1,000 of 10,000 nodes at work. Work takes |N(0, 1)| s of virtual time
and no training: the learner returns the state unchanged. The model is `linear` on synthetic rows. Three parts of
the same program are measured, each without the one before it:

- whole: `fedlearn simulate --engine inline`, with the nodes' ClientApp and all of its work but training;
- server: the real server, schedule, gate, log, checkpoint and devices; a node's report is made without the ClientApp;
- clock: devices and virtual time alone, messages out and replies back, without a server that reads them.

A trip is six events: the state is sent, the work is done, the report arrives, the report is judged and added to the
buffer, and two lines go into the log. For the clock, a trip is the first three. Times are processor seconds of this
process after the first trips, as many as are in flight, up to the last: starting and ending a run do not count.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from rich.console import Console
from rich.table import Table

from client.learners.learner import Learner, LocalFit, LocalTask
from fedlearn import flower, wire
from fedlearn.config import RunConfig, from_flower, to_flower
from fedlearn.core.cohort import Instruction
from fedlearn.core.seeding import report_seed
from fedlearn.core.state import State
from fedlearn.devices import load_devices
from fedlearn.engine.apps import load_client_app, load_server_app
from fedlearn.engine.inline import InlineGrid
from fedlearn.engine.node_calls import partition_of
from fedlearn.engine.prepare import prepared
from fedlearn.engine.virtual_nodes import PromptNodes
from fedlearn.engine.virtual_time.setup import with_devices
from fedlearn.engine.virtual_time.timed_grid import VirtualTimeGrid
from fedlearn.models.loaded import initial_state

EVENTS = {"whole": 6, "server": 6, "clock": 3}  # in a trip
EXAMPLES = 20
SELDOM = 200  # trips between reads of the time


class Idle(Learner):
    """A learner that returns the state unchanged."""

    def __init__(self, model: Any, config: RunConfig) -> None:
        pass

    @classmethod
    def from_settings(cls, model: Any, config: RunConfig) -> Idle:
        """Return the learner."""
        return cls(model, config)

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the state unchanged."""
        return LocalFit(state, len(task.indices), {"train_loss": 0.0})


class Marks:
    """A record of processor time by number of trips; it is read seldom, as one read takes as long as half a trip."""

    def __init__(self) -> None:
        self._trips = 0
        self._made: list[tuple[int, float]] = [(0, time.process_time())]

    def add(self, messages: Sequence[Message]) -> None:
        """Count the messages that a grid is given."""
        self._trips += sum(message.metadata.message_type == MessageType.TRAIN for message in messages)
        if self._trips >= self._made[-1][0] + SELDOM:
            self._made.append((self._trips, time.process_time()))

    def seconds_a_trip(self, after: int) -> float:
        """Return the mean processor time of a trip, without the first `after` trips."""
        first = next(mark for mark in self._made if mark[0] >= after)
        last = self._made[-1]
        return (last[1] - first[1]) / (last[0] - first[0])


class WholeNodes(InlineGrid):
    """The engine `inline`."""

    def __init__(self, config: RunConfig, marks: Marks) -> None:
        super().__init__(load_client_app(), config.clients, to_flower(config))
        self._marks = marks

    def answer(self, messages: Sequence[Message], *, seconds: float) -> Iterable[Message]:
        """Run the nodes."""
        self._marks.add(messages)
        return super().answer(messages, seconds=seconds)


class SilentNodes(PromptNodes):
    """Nodes that report an unchanged state, without a ClientApp."""

    def __init__(self, config: RunConfig, marks: Marks) -> None:
        super().__init__(config.clients, to_flower(config))
        state = initial_state(self.settings, {})
        self._arrays = wire.pack_arrays({name: np.zeros_like(array) for name, array in state.items()})
        self._seed = config.seed
        self._marks = marks

    def answer(self, messages: Sequence[Message], *, seconds: float) -> Iterable[Message]:
        """Make a valid report for each training message; other messages get no answer."""
        self._marks.add(messages)
        training = (message for message in messages if message.metadata.message_type == MessageType.TRAIN)
        return [Message(self._report(message), reply_to=message) for message in training]

    def _report(self, message: Message) -> RecordDict:
        at, partition = wire.read_instruction(message.content), partition_of(message.metadata.dst_node_id)
        seed = report_seed(self._seed, round_number=at.round_number, node=partition)
        metrics = flower.filled(MetricRecord(), {wire.NUM_EXAMPLES: EXAMPLES, "train_loss": 0.0})
        report = wire.report_record(at, partition_id=partition, seed=seed, sends="update")
        records = {wire.ARRAYS: self._arrays, wire.METRICS: metrics, wire.REPORT: report}
        content = flower.filled(RecordDict(), records)
        wire.seal(content)
        return content


def seconds_of_a_run(nodes: Callable[[RunConfig, Marks], PromptNodes], config: RunConfig) -> float:
    """Return the processor time of a trip of a run on these nodes."""
    marks = Marks()
    with tempfile.TemporaryDirectory() as folder:
        config = prepared(config.model_copy(update={"out": str(Path(folder) / "run")}))
        grid = nodes(config, marks)
        load_server_app()(with_devices(grid, config), flower.server_context(to_flower(config)))
    return marks.seconds_a_trip(in_flight_of(config))


def seconds_of_the_clock(config: RunConfig, trips: int) -> float:
    """Return the processor time of a trip without a server: the number of nodes in flight stays the same."""
    marks = Marks()
    held = np.full(config.clients, EXAMPLES)
    fleet = load_devices(config.devices, clients=config.clients, seed=config.seed, examples=held)
    nodes = SilentNodes(config, Marks())
    report = nodes._report(_message(nodes, 2, 0))
    nodes.answer = lambda messages, *, seconds: [_reply(message, report) for message in messages]  # type: ignore[method-assign]
    grid = VirtualTimeGrid(nodes, fleet, held)
    timed = grid.offers.timed
    assert timed is not None
    free = list(nodes.get_node_ids())
    random.Random(config.seed).shuffle(free)
    node_of: dict[str, int] = {}
    sent, most = 0, in_flight_of(config)
    while sent < trips:
        wanted = min(most - len(node_of), trips - sent)
        messages = [_message(nodes, free.pop(), sent) for _ in range(wanted)]
        ids = grid.push_messages(messages)
        node_of |= {key: message.metadata.dst_node_id for key, message in zip(ids, messages, strict=True)}
        sent += wanted
        marks.add(messages)
        timed.wait(60.0)
        for reply in grid.pull_messages(list(timed.arrived())):
            free.insert(0, node_of.pop(reply.metadata.reply_to_message_id))
    return marks.seconds_a_trip(in_flight_of(config))


def _message(nodes: SilentNodes, node: int, position: int) -> Message:
    instruction = flower.filled(ConfigRecord(), Instruction(1, 1, position)._asdict())
    content = flower.filled(RecordDict(), {wire.ARRAYS: nodes._arrays, wire.INSTRUCTION: instruction})
    return flower.message_to(content, node, MessageType.TRAIN, ttl=600.0)


def _reply(message: Message, report: RecordDict) -> Message:
    about = message.metadata
    return flower.reply_from(
        node_id=about.dst_node_id,
        message_type=about.message_type,
        reply_to=about.message_id,
        content=report,
        error=None,
    )


def in_flight_of(config: RunConfig) -> int:
    """Return how many nodes are at work at the same time."""
    return config.goal_count


def config_of(nodes: int, in_flight: int, trips: int) -> RunConfig:
    """Return the settings of the run."""
    return from_flower({
        **to_flower(RunConfig()), "clients": nodes, "rounds.cohort": in_flight, "rounds.schedule": "buffered",
        "rounds.schedule_options": '{"buffer_size": 100}', "rounds.total": max(trips // 100, 1),
        "data.dataset": "synthetic", "data.options": f'{{"kind": "rows", "examples": {EXAMPLES}}}',
        "model.name": "linear", "training.learner": f"{__spec__.name}:Idle", "training.local_epochs": 1,
        "compression.send": "update", "strategy.weighting": "uniform", "devices.name": "half-normal",
        "evaluation.where": "none", "engine.name": "inline",
    })  # fmt: skip


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--in-flight", type=int, default=1000)
    parser.add_argument("--trips", type=int, default=6000, help="of each part, those that fill up included")
    parser.add_argument("--repeats", type=int, default=1, help="the best of these counts")
    options = parser.parse_args()
    flower.enter_run()
    flower.log_as_we_do()
    config = config_of(options.nodes, options.in_flight, options.trips)
    parts: dict[str, Callable[[], float]] = {
        "whole": lambda: seconds_of_a_run(WholeNodes, config),
        "server": lambda: seconds_of_a_run(SilentNodes, config),
        "clock": lambda: seconds_of_the_clock(config, options.trips),
    }
    found = {name: min(measure() for _ in range(options.repeats)) for name, measure in parts.items()}
    table = Table(
        title=f"{options.nodes:,} nodes, {options.in_flight:,} in flight, {os.cpu_count()} cores, one is used"
    )
    for head in ("part", "us a trip", "trips a second", "events of a trip", "events a second"):
        table.add_column(head, justify="left" if head == "part" else "right")
    for name, seconds in found.items():
        per_second = 1 / seconds
        cells = (f"{1e6 * seconds:,.0f}", f"{per_second:,.0f}", f"{EVENTS[name]}", f"{EVENTS[name] * per_second:,.0f}")
        table.add_row(name, *cells)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
