"""The examples of a node."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict

from client import examples as node
from client.request import Request
from fedlearn.config import config_from, to_flower
from fedlearn.core.errors import SettingError
from fedlearn.engine.node_calls import FIRST_NODE_ID, context_of

FLAT = {"clients": 4, "data.dataset": "digits", "out": "/runs/first"}


def request(**about):
    return Request.of(Message(RecordDict(), 7, "train"), context(**about))


def context(*, run: int = 1, settings: dict[str, object] | None = None, **node_config: str | bool) -> Context:
    node = {"partition-id": 3, "num-partitions": 4, **node_config}
    return Context(run, 7, node, RecordDict(), to_flower(config_from(FLAT | (settings or {}))))


def test_a_node_with_its_own_data_holds_all_of_it():
    share, own = node.examples_of(request()), node.examples_of(request(**{"own-data": True}))
    assert len(share) < len(own)
    assert np.array_equal(own, np.arange(len(own)))


SKEWED = {"data.partition": "dirichlet", "clients": 20, "rounds.cohort": 0}


def test_nodes_without_examples_are_said_before_round_1():
    config = config_from(FLAT | SKEWED | {"data.alpha": 0.02})
    empty = int((node.partitions_of(config).sizes() == 0).sum())
    assert 0 < empty <= 4
    assert node.empty_nodes(config) == (f"{empty} of 20 clients have no examples: they never take part",)
    assert node.empty_nodes(config_from(FLAT)) == ()


def test_too_few_nodes_with_examples_are_refused_with_the_remedy():
    with pytest.raises(SettingError) as raised:
        node.empty_nodes(config_from(FLAT | SKEWED | {"data.alpha": 0.01}))
    assert str(raised.value) == (
        "data.alpha = 0.01: 5 of 20 clients have no examples, and 16 must be ready in each round: "
        "take another data.alpha, or --cohort 15"
    )
    node.empty_nodes(config_from(FLAT | SKEWED | {"data.alpha": 0.01, "rounds.cohort": 15}))


def test_file_that_leaves_nodes_out_is_said(tmp_path):
    places = tmp_path / "nodes.csv"
    places.write_text("node\n" + "".join(f"{(row % 2) * 3}\n" for row in range(1442)))
    with pytest.raises(
        SettingError, match=r"2 of 4 clients have no examples, .* take another data.partition, or --coh"
    ):
        node.empty_nodes(config_from(FLAT | {"data.partition": str(places)}))


def test_nodes_of_data_that_are_made_node_by_node_are_not_counted():
    assert node.empty_nodes(config_from({"data.dataset": "synthetic", "clients": 1_000_000})) == ()


def test_a_node_with_its_own_data_holds_some_of_it_out():
    own = request(settings={"data.node_test_share": 0.25}, **{"own-data": True})
    trained_on, measured_on = node.examples_of(own), node.examples_to_test(own)
    assert (len(trained_on), len(measured_on)) == (1082, 360)
    assert len(np.unique(trained_on)) == len(trained_on)
    assert np.bincount(measured_on.targets, minlength=10).min() > 0  # of all classes: it is not the end of the file


def test_what_only_a_nodes_own_file_numbers_is_said_to_its_owner_once(tmp_path, caplog):
    (tmp_path / "own.csv").write_text("age,hours,kind\n" + "1,2,a\n3,4,b\n" * 9)
    given = {"data.dataset": str(tmp_path / "own.csv"), "model.name": "linear"}
    for run, options in ((91, {}), (91, {}), (92, {"classes": ["a", "b"], "inputs": ["age", "hours"]})):
        settings = {**given, "data.options": {"target": "kind", **options}, "seed": run}
        node.examples_of(request(run=run, settings=settings, **{"own-data": True}))
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2 and "classes are numbered by this client's own examples (a, b)" in said[0]
    assert "columns stand in the order of this client's own file" in said[1]


@pytest.mark.parametrize("asked", ["cuda", "cpu"])
def test_node_computes_where_its_owner_says_whatever_the_server_asks(asked):
    assert request(settings={"engine.device": asked}).config.engine.device == "cpu"
    assert request(settings={"engine.device": asked}, device="mps").config.engine.device == "mps"


def test_virtual_node_computes_where_the_run_does():
    settings = to_flower(config_from({"engine.device": "cuda:1"}))
    virtual = Request.of(
        Message(RecordDict(), 7, "train"), context_of(FIRST_NODE_ID, b"", num_nodes=4, settings=settings)
    )
    assert virtual.config.engine.device == "cuda:1"
    assert not virtual.is_real


def test_only_an_engine_of_simulations_makes_a_node_virtual():
    """A foreign app's node is given the two numbers that Flower's own simulation gives, and so counts as real."""
    assert request().is_real
    assert request(device="cpu").is_real
    assert context_of(FIRST_NODE_ID, b"", num_nodes=4, settings={"lr": 0.1}).node_config.keys() == {
        "partition-id", "num-partitions",
    }  # fmt: skip
