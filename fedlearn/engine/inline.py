"""The inline engine: one process, one node after another, every breakpoint where you put it. The reference."""

from __future__ import annotations

from collections.abc import Iterable

from flwr.app import Message

from fedlearn import flower
from fedlearn.components import load_client_app, load_server_app
from fedlearn.config import RunConfig, to_flower
from fedlearn.engine.prepare import prepared
from fedlearn.engine.virtual_nodes import ClientCall, VirtualNodes, run_node


class InlineGrid(VirtualNodes):
    """Runs a node when it is written to."""

    def __init__(self, client_app: ClientCall, num_nodes: int, settings: dict[str, bool | int | float | str]) -> None:
        super().__init__(num_nodes, settings)
        self._client_app = client_app

    def answer(self, messages: list[Message]) -> Iterable[Message]:
        """Run the nodes in the order of the messages."""
        for message in messages:
            node_id = message.metadata.dst_node_id
            reply, kept = run_node(
                self._client_app, message, self.kept.get(node_id, b""),
                num_nodes=self.num_nodes, settings=self.settings,
            )  # fmt: skip
            if kept:
                self.kept[node_id] = kept
            yield reply


def run(config: RunConfig) -> None:
    """Run to the end in this process."""
    flower.enter_run()
    config = prepared(config)
    settings = to_flower(config)
    grid = InlineGrid(load_client_app(), config.clients, settings)
    load_server_app()(grid, flower.server_context(settings))
