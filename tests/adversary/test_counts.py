"""Bytes beside reports are counted, and a node that hangs costs a single deadline. E3."""

from __future__ import annotations

from collections import Counter

from fedlearn import wire
from tests.unit.server.scripted import Node, ScriptedGrid, made_nodes

DEADLINE = 60.0


class Weighing(ScriptedGrid):
    """Weighs what goes each way, by the type of the message."""

    def __init__(self, clock, nodes):
        super().__init__(clock, nodes)
        self.down, self.up = Counter(), Counter()

    def _replies(self, message, node):
        replies = super()._replies(message, node)
        kind = message.metadata.message_type
        self.down[kind] += wire.bytes_of(message.content)
        self.up[kind] += sum(wire.bytes_of(reply.content) for _, reply in replies if reply.has_content())
        return replies


def counted(run):
    (record,) = run.store.history.rounds
    return record.bytes_down, record.bytes_up, record.bytes_protocol


def test_E3_every_byte_is_counted_those_of_evaluations_on_nodes_too(scene):
    run = scene(made_nodes(4), grid=Weighing, evaluation={"where": "nodes"}).run()
    down, up = run.grid.down, run.grid.up
    assert down["evaluate"] > 4 * 40 and up["evaluate"] > 0
    protocol = sum(size for kind, size in down.items() if kind not in ("train", "evaluate"))
    protocol += sum(size for kind, size in up.items() if kind != "train")
    assert counted(run) == (down["train"] + down["evaluate"], up["train"], protocol)


def test_E3_a_second_report_is_refused_and_its_bytes_are_counted(scene):
    nodes = made_nodes(3)
    (twice, *_) = (node for node in nodes.values() if node.partition_id == 1)
    honest = ScriptedGrid._report
    twice.report = lambda message, node: honest(run.grid, message, Node(1)) * 2
    run = scene(nodes, grid=Weighing)
    run.run()
    assert counted(run)[1] == run.grid.up["train"]
    assert "duplicate" in run.events("refused")[0]["reason"]


def test_E3_a_node_that_hangs_or_fails_is_not_asked_to_evaluate(scene):
    """It would cost a second deadline in each round."""
    nodes = made_nodes(6)
    hanging, failing = sorted(nodes)[:2]
    nodes[hanging].report_after = nodes[hanging].evaluate_after = None
    nodes[failing].failing = "its disk is full"
    settings = {"rounds": {"quorum": 0.5, "reporting_deadline": DEADLINE}, "evaluation": {"where": "nodes"}}
    run = scene(nodes, **settings).run()
    assert sorted(run.grid.evaluated) == sorted(nodes.keys() - {hanging, failing})
    assert run.store.history.rounds[0].measured["accuracy"] == 0.5
    assert run.clock.now() < 2 * DEADLINE
