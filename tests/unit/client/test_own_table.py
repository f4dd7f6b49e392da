"""A node with a table of its own and a private model: one record more changes no more than its own count."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict

from client import examples
from client.request import Request
from fedlearn import flower, wire
from fedlearn.config import config_from, to_flower
from fedlearn.core.cohort import Instruction
from fedlearn.engine.apps import load_client_app
from fedlearn.models.loaded import initial_state

ROWS = [f"{'uv'[i % 2]},{i % 97},{'no' if i % 3 else 'yes'}" for i in range(200)]


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLEARN_DATA", str(tmp_path))

    def write(name, rows):
        name = f"{tmp_path.name}-{name}"  # a process keeps what it has loaded by the settings of the run
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,y", *rows, ""]))
        declared = f'data = "{name}.csv"\ntarget = "y"\nclasses = ["no", "yes"]\n'
        (tmp_path / f"{name}.toml").write_text(declared + 'categories = {a = ["u", "v"]}\nbounds = {b = [0, 99]}\n')
        return f"{name}.toml"

    return write


def settings(dataset, **changes):
    plain = {"clients": 4, "model.name": "dp-naive-bayes", "privacy.noise": "secure", "data.dataset": dataset}
    return to_flower(config_from(plain | {name.replace("__", "."): value for name, value in changes.items()}))


def context(folder, dataset, **changes):
    about = {
        "ledger": str(folder / "ledger"),
        "data-name": dataset,
        "own-data": True,
        "largest-epsilon": 9.0,
        "declared": dataset,
    }
    return Context(1, 5, {"partition-id": 3, **about}, RecordDict(), settings(dataset, **changes))


def ready(folder, dataset):
    query = wire.ready_query(5, round_number=1, attempt=1, ttl=60.0)
    return wire.read_ready_answer(load_client_app()(flower.with_id(query), context(folder, dataset)))[1]


def sums(folder, dataset, **changes):
    asked = context(folder, dataset, **changes)
    state = initial_state(asked.run_config, {})
    message = Message(RecordDict({wire.ARRAYS: wire.pack_arrays(state)}), 5, "train")
    report = load_client_app()(flower.with_id(wire.with_instruction(message, Instruction(1, 1, 2), ttl=60.0)), asked)
    return wire.read_state(report.content)["sums"]


@pytest.fixture
def no_noise(monkeypatch):
    monkeypatch.setattr("client.learners.sums_learner.geometric", lambda counts, **_: counts)


@pytest.mark.parametrize("at", [0, 100, 200])
def test_one_row_more_counts_once_and_moves_no_other(table, tmp_path, no_noise, at):
    first, second = table("first", ROWS), table("second", [*ROWS[:at], "u,5,no", *ROWS[at:]])
    one, other = sums(tmp_path, first), sums(tmp_path, second)
    assert (other - one >= 0).all() and (other - one).sum() == 2  # once in each column
    assert one.sum() == 2 * len(ROWS)  # all rows are trained on


def test_all_rows_are_trained_on_whatever_share_the_server_wants_held_out(table, tmp_path):
    dataset = table("first", ROWS)
    plain, asked = context(tmp_path, dataset), context(tmp_path, dataset, data__node_test_share=0.3)
    plain, asked = (Request.of(Message(RecordDict(), 5, "train"), each) for each in (plain, asked))
    for each in (plain, asked):
        assert examples.examples_of(each).tolist() == list(range(200))
        assert len(examples.training_set(each)) == 200
    np.testing.assert_array_equal(examples.training_set(plain).inputs, examples.training_set(asked).inputs)


ODD = {
    "a class that is not declared": "u,5,maybe",
    "a cell that is no number": "u,HIV+,no",
    "no class": "u,5,",
    "a category that is not declared": "HIV+,5,no",
    "too few cells": "u,5",
    "too many cells": "u,5,no,HIV+",
    "a quote that nothing closes": 'u,5,"no',
    "bytes that are no text": "u,\ufffd,no",
}


@pytest.mark.parametrize("row", ODD.values(), ids=ODD.keys())
def test_a_row_that_cannot_be_read_is_told_to_nobody_but_the_owner(table, tmp_path, no_noise, caplog, row):
    """The others count as they do without it."""
    plain, odd = table("plain", ROWS), table("odd", [*ROWS[:50], row, *ROWS[50:]])
    assert ready(tmp_path, odd) == ready(tmp_path, plain) == ""
    assert 0 <= (sums(tmp_path, odd) - sums(tmp_path, plain)).sum() <= 2
    said = [record.getMessage() for record in caplog.records if record.name == "fedlearn.node"]
    assert said and all("odd.toml: " in line for line in said)


@pytest.mark.parametrize("rows", [[], ["u,5,maybe"], ROWS[:1]])
def test_a_table_of_no_row_or_one_is_as_ready_as_any(table, tmp_path, no_noise, rows):
    few = table("few", rows)
    assert ready(tmp_path, few) == ""
    assert sums(tmp_path, few).sum() == 2 * sum("maybe" not in row for row in rows)


@pytest.mark.parametrize("end", [".csv", ".toml"])
def test_a_file_that_is_not_there_is_said_by_a_word(table, tmp_path, end, caplog):
    dataset = table("gone", ROWS)
    (tmp_path / dataset).with_suffix(end).unlink()
    assert ready(tmp_path, dataset) == "not-ready"
    assert "data-unreadable: " in caplog.text


ASKED = [
    '{"target": "b", "classes": 98}',  # loads if no cell of b is above 97: seven such questions find the largest
    '{"target": "y", "classes": ["no", "yes"]}',
    '{"target": "a", "classes": ["u", "v"]}',
]


@pytest.mark.parametrize("owner", [{}, {"declared": "mine"}], ids=["nothing declared", "declared"])
@pytest.mark.parametrize("options", ["", *ASKED])
def test_a_server_that_names_file_and_options_hears_the_same_of_all_rows(table, tmp_path, owner, options):
    """A ready query costs nothing, so whether a file can be loaded by a server's options must not show."""
    words = set()
    for name, more in (("first", []), ("second", ["w,98,maybe", "u,HIV+,no"])):
        dataset = table(name, [*ROWS, *more])
        asked = {"data__dataset": f"{dataset[:-5]}.csv", "data__options": options}
        network = {"model__name": "mlp", "privacy__protects": "records", "privacy__epsilon": 1.0}
        network |= {"privacy__delta": 1e-6, "privacy__records": 100, "training__learner": "dp-sgd", **asked}
        there = context(tmp_path, dataset, **network)
        there.node_config["delta"] = 1e-6
        there.node_config["declared"] = dataset if owner else ""
        query = wire.ready_query(5, round_number=1, attempt=1, ttl=60.0)
        words.add(wire.read_ready_answer(load_client_app()(flower.with_id(query), there))[1])
    assert words == ({""} if owner else {"not-ready"})
