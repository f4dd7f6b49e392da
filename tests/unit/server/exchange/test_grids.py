"""Arrays cross a network in boxes, which only the grid and the client app see."""

from __future__ import annotations

from flwr.app import ConfigRecord
from flwr.superlink.grid import HttpGrid

from fedlearn import wire
from server.exchange.grids import BoxingGrid, for_network
from tests.unit.server.scripted import NetworkGrid, Node, answer, honest_content


class Boxed(BoxingGrid):
    """A network whose messages travel in boxes; tests look at the nodes behind it."""

    def __init__(self, clock, nodes):
        super().__init__(NetworkGrid(clock, nodes))
        self.nodes = nodes
        self._grid._replies = self._opened(self._grid._replies)

    def _opened(self, replies):
        """Have nodes read what is no instruction; these go as our client does."""

        def to_opened(message, node):
            if message.metadata.message_type != "train":
                wire.unbox(message.content)
            return replies(message, node)

        return to_opened


def boxes_in(content):
    return [record[wire.BOX] for record in content.values() if list(record) == [wire.BOX]]


class BoxingNode(Node):
    """Answers as our client does, and keeps what it was sent."""

    def __init__(self, partition_id, spoil=None):
        super().__init__(partition_id, report=self._report)
        self.received = []
        self.spoil = spoil

    def _report(self, message, node):
        self.received += boxes_in(message.content)
        assert wire.unbox(message.content)
        reply = answer(message, honest_content(message, self.partition_id))
        wire.box(reply.content)
        if self.spoil:
            reply.content[wire.BOX] = ConfigRecord({wire.BOX: self.spoil})
        return [reply.content]


def test_a_run_in_boxes_makes_the_model_of_one_without(scene):
    plain = scene({10 + i: Node(i) for i in range(4)}, grid=NetworkGrid, rounds={"total": 3}).run()
    inside = scene({10 + i: BoxingNode(i) for i in range(4)}, grid=Boxed, rounds={"total": 3}).run()
    assert inside.store.model_sha256 == plain.store.model_sha256
    assert inside.store.history.rounds == plain.store.history.rounds  # their bytes, too
    for node in inside.grid.nodes.values():
        assert [type(box) for box in node.received] == [bytes] * 6  # of each round: the state, and all else


def test_nodes_that_share_a_state_share_its_box(scene):
    run = scene({10 + i: BoxingNode(i) for i in range(3)}, grid=Boxed).run()
    boxes = {id(node.received[0]) for node in run.grid.nodes.values()}
    assert len(boxes) == 1


def test_a_report_in_a_box_that_does_not_open_is_refused(scene):
    nodes = {10 + i: BoxingNode(i, spoil=b"\xff" * 99 if i == 1 else None) for i in range(3)}
    run = scene(nodes, grid=Boxed, rounds={"quorum": 0.6}).run()
    assert list(run.reasons("refused")) == [11]
    assert run.store.history.rounds[0].reported == 2


def test_only_messages_that_cross_a_network_are_boxed(scene):
    grid = scene({10: Node(0)}).grid
    assert for_network(grid) is grid
    assert isinstance(for_network(object.__new__(HttpGrid)), BoxingGrid)  # without a server to connect to
