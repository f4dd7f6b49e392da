"""Grids around Flower's grid: one shows a strategy its cohort, one spares a network requests, one never waits."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedlearn import wire
from fedlearn.aggregation.offers import Offers, offers_of
from fedlearn.core.errors import Refused, RunFailed
from fedlearn.flower import NodeInfo, Run
from fedlearn.flower.network import crosses_network

PATIENCE = 3  # looks at the cohort after which a strategy is said to wait for more nodes


class PassingGrid(Grid):
    """Passes everything on to another grid."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def set_run(self, run: Run) -> None:
        """Pass on."""
        self._grid.set_run(run)

    @property
    def offers(self) -> Offers:
        """Return what the wrapped grid offers."""
        return offers_of(self._grid)

    @property
    def run(self) -> Run:
        """The other grid's run."""
        return self._grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Pass on."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """Pass on."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[NodeInfo]:
        """Pass on."""
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Pass on."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Pass on."""
        return self._grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Pass on."""
        return self._grid.send_and_receive(messages, timeout=timeout)


class CohortGrid(PassingGrid):
    """The cohort, as if it were the whole grid: a strategy's own sampling finds the selected nodes and no others."""

    def __init__(self, grid: Grid, node_ids: list[int]) -> None:
        super().__init__(grid)
        self._node_ids = node_ids
        self._looks = 0

    def get_node_ids(self) -> Iterable[int]:
        """Return the cohort.

        Flower's sampling looks again and again, for ever, while there are fewer nodes than it wants: here it fails.
        """
        self._looks += 1
        if self._looks > PATIENCE:
            raise RunFailed(
                f"the strategy waits for more clients than the cohort of {len(self._node_ids)}: lower its "
                "min_train_nodes and min_available_nodes in strategy.options, or raise rounds.cohort"
            )
        return list(self._node_ids)

    def get_nodes(self) -> Iterable[NodeInfo]:
        """Return the cohort."""
        return [NodeInfo(node_id=node_id) for node_id in self._node_ids]


class BoxingGrid(PassingGrid):
    """Puts records into boxes before they cross the network, and takes them out of those that come."""

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages in boxes; they themselves stay as they are. A record that several share is boxed once."""
        copies = [_copy_of(message) for message in messages]
        wire.replace_arrays([copy.content for copy in copies], wire.boxed)
        for copy in copies:
            wire.box_rest(copy.content)
        return self._grid.push_messages(copies)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies so far; a box that does not open stays closed, and its reader refuses it."""
        replies = list(self._grid.pull_messages(message_ids))
        for reply in replies:
            if reply.has_content():
                with suppress(Refused):
                    wire.unbox(reply.content)
        return replies


def _copy_of(message: Message) -> Message:
    about = message.metadata
    content = message.content.copy()
    return Message(content, about.dst_node_id, about.message_type, ttl=about.ttl, group_id=about.group_id)


class PatientGrid(PassingGrid):
    """A network whose messages go and come one by one: what one node does to its own, or does not send, is its loss."""

    def __init__(self, grid: Grid) -> None:
        from fedlearn.flower import replies  # what it imports is there only where there is a network

        super().__init__(grid)
        self._push, self._replies = replies.push, replies.Replies(grid)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages; one that cannot be sent has no id."""
        return self._push(self._grid, list(messages))

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that are there, whole; an error for one that cannot be read."""
        return self._replies.pull(message_ids)


def for_network(grid: Grid) -> Grid:
    """Return a grid that boxes, and is patient, where messages cross a network."""
    return BoxingGrid(PatientGrid(grid)) if crosses_network(grid) else grid
