"""The inline engine: one node after another, in this process, where breakpoints work. The reference in tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from flwr.app import ArrayRecord, Message, MessageType, RecordDict

from fedlearn import flower
from fedlearn.aggregation.offers import Offers
from fedlearn.config import RunConfig, to_flower
from fedlearn.core.clock import WallClock
from fedlearn.engine.apps import load_client_app, load_many, load_server_app
from fedlearn.engine.engine_type import Engine
from fedlearn.engine.node_calls import ClientCall, run_node, run_nodes
from fedlearn.engine.prepare import prepared, trained_together
from fedlearn.engine.virtual_nodes import PromptNodes, expired
from fedlearn.engine.virtual_time.setup import with_devices


class InlineGrid(PromptNodes):
    """Runs a node when it is written to; `stack` of them are trained together."""

    def __init__(
        self, client_app: ClientCall, num_nodes: int, settings: dict[str, bool | int | float | str], *, stack: int = 1
    ) -> None:
        super().__init__(num_nodes, settings)
        self._client_app = client_app
        self._clock = WallClock()
        self._stack = stack

    @property
    def offers(self) -> Offers:
        """The grid's abilities beyond Flower's Grid: it also trains several nodes together."""
        return replace(super().offers, stacks=True)

    def answer(self, messages: Sequence[Message], *, seconds: float) -> Iterable[Message]:
        """Run the nodes in the order of the messages; a node that has begun is never interrupted."""
        seconds = min(seconds, max((message.metadata.ttl for message in messages), default=0.0))
        end = self._clock.now() + seconds
        place, copies = 0, dict[int, ArrayRecord]()
        while place < len(messages):
            if self._clock.now() >= end:
                yield from expired(messages[place:], seconds)
                return
            size = self._stack if messages[place].metadata.message_type == MessageType.TRAIN else 1
            together = messages[place : place + size]
            yield from self._run_nodes(together, copies)
            place += len(together)

    def _run_nodes(self, messages: Sequence[Message], copies: dict[int, ArrayRecord]) -> Iterable[Message]:
        """Run a node, or several that are trained together."""
        memories = [self.kept.get(message.metadata.dst_node_id, b"") for message in messages]
        given = [(_delivered(message, copies), mine) for message, mine in zip(messages, memories, strict=True)]
        num_nodes, settings = self.num_nodes, self.settings
        if len(given) > 1:
            outcomes = run_nodes(load_many(), given, num_nodes=num_nodes, settings=settings)
        else:
            outcomes = (run_node(self._client_app, *each, num_nodes=num_nodes, settings=settings) for each in given)
        for message, (reply, kept) in zip(messages, outcomes, strict=True):
            self.keep({message.metadata.dst_node_id: kept})
            yield reply


def _delivered(message: Message, copies: dict[int, ArrayRecord]) -> Message:
    """Return a message with copies of its records, as if it had been sent, as a strategy may share records.

    Arrays that several messages share are copied once: nodes of one process decode them once.
    """
    about, content = message.metadata, RecordDict()
    for key, record in message.content.items():
        copy = record.copy()
        flower.filled(content, {key: copies.setdefault(id(record), copy) if isinstance(copy, ArrayRecord) else copy})
    return flower.received(
        content,
        node_id=about.dst_node_id, message_type=about.message_type, message_id=about.message_id, ttl=about.ttl,
    )  # fmt: skip


def run(config: RunConfig) -> None:
    """Run to the end in this process."""
    flower.enter_run()
    flower.log_as_we_do()
    config = prepared(config)
    settings = to_flower(config)
    grid = InlineGrid(load_client_app(), config.clients, settings, stack=trained_together(config))
    load_server_app()(with_devices(grid, config), flower.server_context(settings))


INLINE = Engine(run, stacks=True)
