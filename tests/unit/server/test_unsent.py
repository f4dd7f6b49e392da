"""On a network a node that lacks the model's frozen arrays is sent them once, before it takes part."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import ConfigRecord, RecordDict

from fedlearn import wire
from fedlearn.core.client_facts import LACKS
from fedlearn.core.errors import RunFailed
from fedlearn.core.state import digest_of
from tests.unit.server.scripted import NetworkGrid, Node, Scene, ScriptedGrid, made_nodes

BACKBONE = {"backbone": np.arange(1000, dtype=np.float32)}
ROUNDS = {"total": 2, "invited": 0}


class Lacking:
    """A node's answers to ready queries: it takes the arrays that it is sent, unless it `forgets`."""

    def __init__(self, *, forgets=False):
        self.came, self.forgets, self.has = [], forgets, False

    def __call__(self, message, node):
        if message.metadata.message_type == wire.UNSENT_ARRAYS:
            self.came.append(wire.read_state(message.content))
            self.has = not self.forgets
        why_not = "" if self.has else LACKS
        return [RecordDict({wire.CONFIG: ConfigRecord({"partition_id": node.partition_id, "why_not": why_not})})]


@pytest.fixture
def run(scene):
    def run(nodes, grid=NetworkGrid, **rounds) -> Scene:
        made = scene(nodes, grid=grid, rounds={**ROUNDS, **rounds})
        made.unsent = BACKBONE
        made._serve()
        return made.run()

    return run


def test_node_that_lacks_them_is_sent_the_arrays_once(run):
    lacking, nodes = Lacking(), made_nodes(3)
    next(iter(nodes.values())).ready = lacking
    made = run(nodes)
    assert [record.reported for record in made.store.history.rounds] == [3, 3]
    (came,) = lacking.came
    assert digest_of(came) == digest_of(BACKBONE)


def test_arrays_are_counted_as_sent_down(run, scene):
    plain = run(made_nodes(3)).store.history.rounds
    nodes = made_nodes(3)
    next(iter(nodes.values())).ready = Lacking()
    sent = run(nodes).store.history.rounds
    size = BACKBONE["backbone"].nbytes
    assert size < sent[0].bytes_down - plain[0].bytes_down < size + 500
    assert sent[1].bytes_down == plain[1].bytes_down
    assert [each.bytes_up for each in sent] == [each.bytes_up for each in plain]


def test_node_that_lacks_them_again_and_again_is_not_sent_them_again(run):
    lacking = Lacking(forgets=True)
    with pytest.raises(RunFailed, match=LACKS):
        run({2: Node(0, ready=lacking)}, max_attempts=3)
    assert len(lacking.came) == 1


def test_ready_queries_name_the_arrays_on_a_network_alone(run, scene):
    asked = []

    def note(message, node):
        asked.append(dict(message.content[wire.CONFIG]))
        return [RecordDict({wire.CONFIG: ConfigRecord({"partition_id": node.partition_id, "why_not": ""})})]

    run({2: Node(0, ready=note)}, grid=ScriptedGrid)
    scene({2: Node(0, ready=note)}, grid=NetworkGrid, rounds=ROUNDS).run()
    assert not any("unsent" in each for each in asked)
    run({2: Node(0, ready=note)})
    assert asked[-1]["unsent"] == digest_of(BACKBONE)
