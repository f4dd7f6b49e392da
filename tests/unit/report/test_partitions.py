"""Which client has which examples, without a run."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import fedlearn
from fedlearn.cli import app
from fedlearn.core.errors import SettingError, UsageError


def test_partition_is_that_of_the_run(tmp_path):
    settings = {
        "clients": 4,
        "data": "digits",
        "partition": "dirichlet",
        "model": "linear",
        "data.node_test_share": 0.2,
    }
    found = fedlearn.partitions(**settings)
    run = fedlearn.run(
        **settings, rounds=1, cohort=1, engine="inline", progress=False, out=str(tmp_path / "run"),
        settings={"evaluation.where": "none"},
    )  # fmt: skip
    assert found.who_has.equals(run.who_has)
    assert found.table["examples"].tolist() == found.who_has.sum().tolist()
    assert (found.table["examples"] + found.table["held_out"]).sum() == len(found.dataset.train)
    assert found.table["labels"].tolist() == [len(set(found.examples(k).targets.tolist())) for k in range(4)]


def test_sizes_of_data_that_are_made_are_counted_by_arithmetic():
    found = fedlearn.partitions(clients=1_000_000, data="synthetic", model="linear")
    assert len(found.table) == 1_000_000
    assert found.who_has.shape[1] == 100


def test_data_by_node_are_shown_with_their_labels_as_picture_and_as_json(tmp_path):
    rows = np.arange(5.0)[:, None]
    north, south = ["a"] * 5, ["b", "b", "c", "c", "c"]
    found = fedlearn.partitions(data={"north": (rows, north, rows, north), "south": (rows, south, rows, south)})
    assert found.who_has.to_numpy().tolist() == [[5, 0], [0, 2], [0, 3]]
    assert json.loads(json.dumps(found.to_plain()))["who_has"] == {"a": [5, 0], "b": [0, 2], "c": [0, 3]}
    assert found.save(tmp_path / "who.png").read_bytes().startswith(b"\x89PNG")
    assert found._repr_html_().startswith("<svg")
    with pytest.raises(UsageError, match=r"who\.gif: name a \.png, \.svg or \.pdf file"):
        found.save(tmp_path / "who.gif")


def test_command_prints_each_label_of_each_client_and_makes_no_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, ["partitions", "--dataset", "digits", "--clients", "2", "--figure", "who.svg"])
    assert shown.exit_code == 0, shown.output
    first = next(line.split() for line in shown.stdout.splitlines() if line.split()[:1] == ["0"])
    assert first[1] == str(sum(map(int, first[4:])))
    assert [path.name for path in tmp_path.iterdir()] == ["who.svg"]


def test_private_run_says_that_its_counts_are_not_paid_for():
    private = {"clients": 3, "data": "diabetes", "model": "dp-forest", "settings": {"privacy.epsilon": 1.0}}
    assert "do not publish" in fedlearn.partitions(**private).notice
    with pytest.raises(SettingError, match=r"data\.alpha"):
        fedlearn.partitions(clients=3, data="digits", partition="dirichlet", settings={"data.alpha": -1})
