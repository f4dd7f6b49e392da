"""The inline engine: one process, one node after another, every breakpoint where you put it. The reference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from flwr.app import Message, MessageType, RecordDict

from fedlearn import flower
from fedlearn.config import RunConfig, to_flower
from fedlearn.engine.apps import load_ahead, load_client_app, load_server_app
from fedlearn.engine.base import Engine
from fedlearn.engine.prepare import prepared
from fedlearn.engine.virtual_nodes import ClientCall, PromptNodes, expired, run_node, trained_ahead
from fedlearn.engine.virtual_time import with_devices
from fedlearn.folding.offers import Offers
from fedlearn.words.clock import WallClock


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
        """What it can do beyond Flower's Grid: it trains nodes together, too."""
        return replace(super().offers, stacks=True)

    def answer(self, messages: Sequence[Message], *, seconds: float) -> Iterable[Message]:
        """Run the nodes in the order of the messages; a node that has begun is never interrupted."""
        seconds = min(seconds, max((message.metadata.ttl for message in messages), default=0.0))
        end = self._clock.now() + seconds
        for place, message in enumerate(messages):
            if self._clock.now() >= end:
                yield from expired(messages[place:], seconds)
                return
            if self._stack > 1 and place % self._stack == 0 and message.metadata.message_type == MessageType.TRAIN:
                self._train_ahead(messages[place : place + self._stack])
            yield self._run_node(message)

    def _train_ahead(self, messages: Sequence[Message]) -> None:
        given = [(_delivered(message), self.kept.get(message.metadata.dst_node_id, b"")) for message in messages]
        trained_ahead(load_ahead(), given, num_nodes=self.num_nodes, settings=self.settings)

    def _run_node(self, message: Message) -> Message:
        node_id = message.metadata.dst_node_id
        kept = self.kept.get(node_id, b"")
        reply, kept = run_node(
            self._client_app, _delivered(message), kept, num_nodes=self.num_nodes, settings=self.settings
        )
        self.keep({node_id: kept})
        return reply


def _delivered(message: Message) -> Message:
    """Return a message with records of its own, as if they had been sent: a strategy may give all the same ones."""
    about = message.metadata
    return flower.received(
        flower.filled(RecordDict(), {key: record.copy() for key, record in message.content.items()}),
        node_id=about.dst_node_id, message_type=about.message_type, message_id=about.message_id, ttl=about.ttl,
    )  # fmt: skip


def run(config: RunConfig) -> None:
    """Run to the end in this process."""
    flower.enter_run()
    flower.log_as_we_do()
    config = prepared(config)
    settings = to_flower(config)
    grid = InlineGrid(load_client_app(), config.clients, settings, stack=config.training.stack)
    load_server_app()(with_devices(grid, config), flower.server_context(settings))


INLINE = Engine(run, stacks=True)
