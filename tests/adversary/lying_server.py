"""A server that lies to nodes: it speaks to the real client app, and tells each node what it likes.

The nodes are real ones, as `fedlearn client --peers --memory` starts them, some with their own data and a ledger. An
attempt goes through the messages of a secure sum as an honest server would; a lie changes what one message says.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict

from client.app import app
from fedlearn import flower, wire
from fedlearn.config import RunConfig, config_from, to_flower
from fedlearn.core.cohort import At, Instruction
from fedlearn.core.errors import Refused
from fedlearn.core.state import State, layout_of
from fedlearn.engine.deployment.deployment_keys import make_keys
from fedlearn.models.loaded import loaded, whole_numbers_of
from fedlearn.secure import texts
from fedlearn.secure.level import Level, chosen
from fedlearn.secure.packed import unpacked
from fedlearn.secure.protocol_messages import Advertised, Masked, Roster, Shared, Signed, Survivors, Unmasked, Unmasking
from fedlearn.secure.question import Question
from fedlearn.secure.server_protocol import SecureServer, Summed
from fedlearn.secure.summands import Summands

Said = tuple[str, RecordDict | None]  # a reason, or an answer
FIRST, METRIC = At(1, 1), "train_loss"


class RealNode:
    """A node in this process."""

    def __init__(self, number: int, **node_config: Any) -> None:
        self.number = number
        self._node_config = {"partition-id": number, **node_config}
        self._state = RecordDict()

    def ask(self, kind: str, content: RecordDict, config: RunConfig) -> Said:
        """Return what the client app answers to a message."""
        sent = flower.from_bytes(flower.to_bytes(content))
        message = flower.received(
            sent, node_id=self.number + 100, message_type=kind, message_id=os.urandom(6).hex(), ttl=600.0
        )
        context = Context(1, self.number + 100, self._node_config, self._state, to_flower(config))
        try:
            reply = app(message, context)
        except Exception as error:
            return f"{type(error).__name__}: {error}", None
        self._state = context.state
        if reply.has_error():
            return reply.error.reason, None
        return "", flower.from_bytes(flower.to_bytes(reply.content))


class NodeApart:
    """A node in a process of its own, with a data folder of its own."""

    def __init__(self, number: int, data: Path, cache: Path, **node_config: Any) -> None:
        self.number = number
        self._pipe, inner = multiprocessing.Pipe()
        where = {"FEDLEARN_DATA": str(data), "FEDLEARN_CACHE": str(cache)}
        arguments = (inner, number, where, node_config)
        self._process = multiprocessing.get_context("fork").Process(target=_serve, args=arguments, daemon=True)
        self._process.start()

    def ask(self, kind: str, content: RecordDict, config: RunConfig) -> Said:
        """Return what the client app answers to a message."""
        self._pipe.send((kind, flower.to_bytes(content), to_flower(config)))
        why, answer = self._pipe.recv()
        return why, None if answer is None else flower.from_bytes(answer)

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def _serve(pipe: Any, number: int, where: Mapping[str, str], node_config: Mapping[str, Any]) -> None:
    os.environ.update(where)
    node = RealNode(number, **node_config)
    while True:
        kind, content, settings = pipe.recv()
        why, answer = node.ask(kind, flower.from_bytes(content), config_from(settings))
        pipe.send((why, None if answer is None else flower.to_bytes(answer)))


def owners_of(folder: Path, count: int, *, least: int, colluding: int = 0) -> list[dict[str, Any]]:
    """Return the node configs of owners who list one another as peers."""
    make_keys(folder / "keys", clients=count)
    public = folder / "keys" / "public" / "nodes"
    (folder / "peers").write_text("\n".join((public / f"{each}.pub").read_text() for each in range(count)))
    return [
        {
            "peers": str(folder / "peers"),
            "node-key": str(folder / "keys" / "nodes" / str(each)),
            "least-peers": least,
            "colluding-peers": colluding,
            "memory": str(folder / f"memory-{each}"),
        }
        for each in range(count)
    ]


def same(number: int, what: Any) -> Any:
    """Tell a node what all others are told."""
    return what


@dataclass
class Attempt:
    """Run one attempt at a secure sum; each lie is a function of a node's number and the honest message to the node.

    Parameters
    ----------
    config, at, nodes
        The run, the attempt, and who is asked.
    settings, state, content, roster, survivors, unmasking
        What to tell of each.
    level
        Of the attempt; one that stands the loss of a node, unless it is given.
    signers
        How many are asked to sign; all, unless it is given.
    lost
        Numbers of nodes that are said to have sent no report.
    """

    config: RunConfig
    nodes: Sequence[RealNode | NodeApart]
    at: At = FIRST
    settings: Callable[[int, RunConfig], RunConfig] = same
    state: Callable[[int, State], State] = same
    content: Callable[[int, RecordDict], RecordDict] = same
    roster: Callable[[int, Roster], Roster] = same
    survivors: Callable[[int, Survivors], Survivors] = same
    unmasking: Callable[[int, Unmasking], Unmasking] = same
    metrics: Callable[[int, str], str] = same
    instruction: Callable[[int, Instruction], Instruction] = same
    level: Level | None = None
    signers: int | None = None
    lost: Sequence[int] = ()
    refusals: list[str] = field(default_factory=list)

    def outcome(self) -> str | Any:
        """Return the sum as it is decoded; or, where there is none, all reasons that nodes have given."""
        flower.enter_run()
        try:
            return self._sum()
        except Ended:
            return "; ".join(dict.fromkeys(self.refusals))
        except Refused as refused:  # what was unmasked is no sum
            return str(refused)

    def _sum(self) -> Any:
        question = Question(self.config.out, *self.at)
        query = wire.ready_query(0, round_number=self.at.round_number, attempt=self.at.attempt, ttl=60.0).content
        keys = []
        for node in self.nodes:
            record = self._said(node, "query.ready", query).get(wire.CONFIG, {"why_not": "not ready"})
            if record["why_not"]:
                self._refused(str(record["why_not"]))
            else:
                keys.append(texts.from_bytes(Advertised, record["keys"]))
        self._end_unless(len(keys) == len(self.nodes))
        level = self.level or chosen(len(keys), colluders=0, dropouts=0.2).level
        state = loaded(self.config)[1].initial_state(seed=self.config.seed)
        summands = summands_of(self.config, state)
        server = SecureServer(question, level, keys, count=summands.count, bits=summands.modulus_bits)
        for node in self.nodes:
            self._taken(node, wire.SHARES, Shared, server.shared, self.roster(node.number, server.roster))
        delivered = self._step(server.deliver())
        for position, node in enumerate(self.nodes):
            if node.number not in self.lost and node.number in delivered:
                message = self._instruction(node.number, position, state, delivered[node.number])
                self._report(node, message, summands, server)
        survivors = self._step(server.survivors())
        for node in [each for each in self.nodes if each.number in survivors][: self.signers]:
            told = self.survivors(node.number, survivors[node.number])
            self._taken(node, wire.SURVIVORS, Signed, server.signed, told)
        unmasking = self._step(server.unmasking())
        for node in [each for each in self.nodes if each.number in unmasking]:
            told = self.survivors(node.number, survivors[node.number])
            proof = self.unmasking(node.number, unmasking[node.number])
            self._taken(node, wire.UNMASKING, Unmasked, server.unmasked, told, proof)
        summed = server.summed()
        self._end_unless(isinstance(summed, Summed))
        return summands.decoded(summed.total, len(summed.nodes))

    def _instruction(self, number: int, position: int, state: State, delivered: Any) -> RecordDict:
        records = {
            wire.ARRAYS: wire.pack_arrays(self.state(number, {name: each.copy() for name, each in state.items()})),
            wire.CONFIG: ConfigRecord({wire.SERVER_ROUND: self.at.round_number}),
        }
        told = self.instruction(number, Instruction(*self.at, position))
        content = wire.with_instruction(Message(RecordDict(records), number, "train"), told, ttl=60.0).content
        said = {"Delivered": texts.to_bytes(delivered), wire.METRICS: self.metrics(number, METRIC).encode()}
        flower.filled(content, {wire.SECURE: wire.secure_record(said)})
        return self.content(number, content)

    def _report(self, node: Any, content: RecordDict, summands: Any, server: SecureServer) -> None:
        answer = self._said(node, "train", content)
        if answer:
            data = wire.unpack_arrays(wire.state_record(answer))["masked"].tobytes()
            values = unpacked(data, summands.count, summands.modulus_bits)
            server.masked(Masked(server.roster.question, node.number, values))

    def _taken(self, node: Any, kind: str, answer: Any, take: Callable[[Any], None], *said: Any) -> None:
        query = wire.secure_query(
            0, kind, self.at, {type(each).__name__: texts.to_bytes(each) for each in said}, ttl=9.0
        )
        if content := self._said(node, kind, query.content):
            try:
                take(texts.from_bytes(answer, wire.read_secure(content)[wire.ANSWER]))
            except Exception as error:
                self._refused(str(error))

    def _said(self, node: Any, kind: str, content: RecordDict) -> Any:
        why, answer = node.ask(kind, content, self.settings(node.number, self.config))
        if why:
            self._refused(why)
        return answer or {}

    def _refused(self, why: str) -> None:
        self.refusals.append(why)

    def _step(self, found: Any) -> Any:
        self._end_unless(isinstance(found, dict))
        return found

    def _end_unless(self, goes_on: bool) -> None:
        if not goes_on:
            raise Ended


class Ended(Exception):
    """Raised where an attempt ends without a sum."""


def summands_of(config: RunConfig, state: State) -> Any:
    """Return what nodes of a run add up."""
    return whole_numbers_of(config, layout_of(state)) or Summands(config, layout_of(state), [METRIC], 0)


def changed(config: RunConfig, **settings: Any) -> RunConfig:
    """Return settings with some of them changed, by their dotted names with a double underscore for the dot."""
    flat = {name.replace("__", "."): each for name, each in settings.items()}
    return config_from({**to_flower(config), **flat})


__all__ = ["At", "Attempt", "NodeApart", "RealNode", "changed", "np", "owners_of", "replace", "summands_of"]
