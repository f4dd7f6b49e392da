"""The contract of every algorithm: it equals its paper, and makes the same bytes everywhere."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import fedlearn
from fedlearn.core.state import is_running
from fedlearn.engine.embedded.engine import WarmEngine
from fedlearn.models.presets import settings_from
from fedlearn.plugins.tables import ALGORITHMS
from tests.algorithms import on_digits
from tests.faults.mutants import ROOT
from tests.marked import thinned
from tests.oracles.algorithms.federation import Normed, Places, load_odd, load_places
from tests.oracles.algorithms.runs import (
    BY_THEMSELVES,
    BYTES,
    COMMON,
    NAMES,
    PERSONAL,
    compare,
    inline_and_killed,
    made,
    net_of,
    settings_of,
    start_of,
)

ODD = {
    "data.dataset": f"{load_odd.__module__}:load_odd", "model.name": f"{Normed.__module__}:Normed",
    "training.batch_size": 10, "training.local_epochs": 1, "rounds.total": 3,
}  # fmt: skip
QUICK = ("scaffold", "feddyn", "fedala")  # of memories of nodes and strategies, and parcels
SEVERAL = [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in NAMES]
FEDERATED = [each for each in SEVERAL if each.values != ("central",)]


@pytest.fixture(scope="module")
def starts(tmp_path_factory):
    return {net_of(name): start_of(name, tmp_path_factory.mktemp(name) / "run") for name in ("fedavg", "fedbn")}


@pytest.fixture(scope="module")
def two_workers():
    with WarmEngine() as engine:
        yield engine


@pytest.mark.parametrize(("name", "further", "oracle"), thinned([*COMMON, *PERSONAL], 2))
def test_it_equals_its_paper(name, further, oracle, starts, tmp_path):
    compare(name, further, oracle, starts[net_of(name)], tmp_path / "run")


def test_every_algorithm_has_an_oracle():
    assert {name for name, _, _ in (*COMMON, *PERSONAL)} == {*ALGORITHMS, *BY_THEMSELVES} - {"central"}


@pytest.mark.parametrize("name", SEVERAL)
def test_it_makes_the_same_bytes_inline_by_two_workers_and_after_a_kill(name, two_workers, tmp_path):
    inline, resumed = inline_and_killed(tmp_path, name)
    settings = settings_of(name, {**BYTES, "engine.name": "embedded", "out": str(tmp_path / "two")})
    two_workers(settings_from(settings))
    two = fedlearn.load(tmp_path / "two")
    assert inline.sha256 == resumed.sha256 == two.sha256
    if name != "central":
        assert inline.nodes.equals(two.nodes)


@pytest.mark.parametrize("name", FEDERATED)
def test_it_takes_normalized_nodes_of_any_size_whatever_ran_before(name, tmp_path):
    measured = made(tmp_path / "measured", name, ODD)
    not_measured = made(tmp_path / "not", name, {**ODD, "evaluation.nodes": 0})
    assert measured.sha256 == not_measured.sha256


@pytest.mark.parametrize("name", ["fedadam", "fedyogi", "fedadagrad", "qfedavg", "fednova"])
@pytest.mark.parametrize("send", ["weights", "update"])
def test_running_statistics_are_those_of_fedavg_after_the_first_round(name, send, tmp_path):
    once = {**ODD, "rounds.total": 1, "evaluation.nodes": 0, "compression.send": send}
    plain, run = (made(tmp_path / each, each, once) for each in ("fedavg", name))
    running = [each for each in plain.state if is_running(each)]
    assert len(running) == 2
    for each in running:
        np.testing.assert_allclose(run.state[each], plain.state[each], rtol=1e-12)
    assert not np.allclose(run.state["body.weight"], plain.state["body.weight"])


@pytest.mark.parametrize("name", FEDERATED)
def test_it_takes_labels_at_several_places(name, tmp_path):
    places = {
        "data.dataset": f"{load_places.__module__}:load_places", "model.name": f"{Places.__module__}:Places",
        "rounds.total": 3,
    }  # fmt: skip
    run = made(tmp_path / "run", name, places)
    assert run.history["train_loss"].iloc[-1] < run.history["train_loss"].iloc[0]


ON_RAY = """
import sys
from pathlib import Path
from tests.oracles.algorithms.runs import BYTES, made
for name in sys.argv[2:]:
    print("made", name, made(Path(sys.argv[1]) / name, name, {**BYTES, "engine.name": "ray"}).sha256)
"""


@pytest.mark.long  # as many clusters, one after another, in a process of their own
def test_they_make_the_same_bytes_on_ray(tmp_path):
    inline = {name: made(tmp_path / name, name, {**BYTES, "engine.name": "inline"}).sha256 for name in NAMES}
    command = [sys.executable, "-c", ON_RAY, str(tmp_path / "ray"), *NAMES]
    ray = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = (line.split()[1:] for line in ray.stdout.splitlines() if line.startswith("made "))
    assert dict(said) == inline, ray.stderr[-2000:]


@pytest.mark.parametrize(
    "only", [pytest.param([QUICK[0]], marks=pytest.mark.slow), pytest.param([], marks=pytest.mark.long)]
)
def test_the_table_on_digits_has_the_hashes_that_are_held(only, capsys):
    assert on_digits(only, hold=False), capsys.readouterr().out
