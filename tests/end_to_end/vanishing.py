"""Runs with secure sums whose nodes vanish from one of their answers on, and whose server is killed."""

from __future__ import annotations

import json
from contextlib import suppress
from types import SimpleNamespace

from flwr.app import MessageType

from fedlearn import flower, wire
from fedlearn.aggregation.offers import Offers
from fedlearn.config import RunConfig, to_flower
from fedlearn.core.errors import RunFailed
from fedlearn.engine.apps import load_client_app, load_server_app
from fedlearn.engine.inline import InlineGrid
from fedlearn.engine.node_calls import error_reply
from fedlearn.engine.prepare import prepared
from fedlearn.flower import ErrorCode

KINDS = {
    "keys": wire.READY_QUERY, "shares": wire.SHARES, "report": MessageType.TRAIN,
    "signature": wire.SURVIVORS, "unmasking": wire.UNMASKING,
}  # fmt: skip


class Vanishing(InlineGrid):
    """Virtual nodes of which some send no more from one of their answers on, in the rounds and attempts named.

    Parameters
    ----------
    gone
        (round, attempt) -> {partition id: the first answer that does not come}; the node still acts on the message.
    """

    def __init__(self, config, gone=()):
        super().__init__(load_client_app(), config.clients, to_flower(config))
        self.gone = dict(gone)
        self.seeds = set()  # all that nodes have had
        self.heard = []  # (round, attempt, kind, partition, content), of all answers that came

    def answer(self, messages, *, seconds):
        for reply, message in zip(list(super().answer(messages, seconds=seconds)), messages, strict=True):
            self.seeds |= {seed for seed in [self.seed_of(message.metadata.dst_node_id)] if seed}
            kind = next((name for name, each in KINDS.items() if each == message.metadata.message_type), "")
            if not kind:
                yield reply
                continue
            at = wire.read_instruction(message.content).at if kind == "report" else wire.read_at(message.content)
            partition = message.metadata.dst_node_id - 2
            last = self.gone.get(tuple(at), {}).get(partition)
            if last is None or list(KINDS).index(kind) < list(KINDS).index(last):
                self.heard.append((*at, kind, partition, reply))
                yield reply
            else:
                yield error_reply(message, ErrorCode.UNKNOWN, "the node has vanished")

    def seed_of(self, node_id):
        """Return what the secrets of a node follow from; empty where it has none."""
        secrets = flower.from_bytes(self.kept.get(node_id, b"")).get(wire.SECRETS)
        return "" if secrets is None else json.loads(secrets["sum"])["seed"]


class Killed(BaseException):
    """The server's process is killed."""


class Remote(Vanishing):
    """Nodes that keep their memories for themselves, as those of a network; the server is killed once.

    Parameters
    ----------
    kill_at
        (kind of message, how many of its kind in round 1 are answered before the kill); None for no kill.
    """

    def __init__(self, config, gone=(), *, kill_at=None, kept=None):
        super().__init__(config, gone)
        self.kept = {} if kept is None else kept
        self._kill_at = kill_at

    @property
    def offers(self):
        return Offers()

    def get_nodes(self):
        return [SimpleNamespace(node_id=node, name=f"node-{node - 2}") for node in self.get_node_ids()]

    def answer(self, messages, *, seconds):
        for place, message in enumerate(messages):
            kind, after = self._kill_at or ("", 0)
            if kind and message.metadata.message_type == KINDS[kind] and place == after:
                raise Killed
            yield from super().answer([message], seconds=seconds)


def settings_of(folder, **further):
    given = {
        "clients": 6, "seed": 3, "out": str(folder), "data": {"dataset": "digits"}, "model": {"name": "linear"},
        "training": {"local_epochs": 1}, "secure": {"sums": "masked", "patience": 60.0, "dropouts": 0.2},
        "rounds": {"total": 2, "cohort": 6, "quorum": 0.6, "minimum_ready": 0.6, "selection_window": 60.0,
                   "reporting_deadline": 60.0, "backoff": 0.0},
    }  # fmt: skip
    for table, values in further.items():
        given[table] = {**given[table], **values} if isinstance(values, dict) and table in given else values
    return RunConfig.model_validate(given)


def run(folder, gone=(), **further):
    """Run to the end with nodes that vanish; return summary, events and the grid."""
    flower.enter_run()
    config = prepared(settings_of(folder, **further))
    grid = Vanishing(config, gone)
    with suppress(RunFailed):
        load_server_app()(grid, flower.server_context(to_flower(config)))
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return json.loads((folder / "summary.json").read_text()), events, grid
