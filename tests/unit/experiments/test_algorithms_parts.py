"""Pieces of a grid of algorithms, the settings of NIID-Bench, joined parts, and what is printed beside ours."""

from __future__ import annotations

import json

import numpy as np
import pytest

from experiments.algorithms import table
from experiments.algorithms.dealing import noisy
from experiments.algorithms.grids import ALGORITHM, Grid
from experiments.algorithms.joining import join
from experiments.intervals import Interval
from fedlearn.core.errors import UsageError
from fedlearn.data import load_dataset

GRIDS = sorted(table.GRIDS.glob("*.toml"))


def grid_of(name):
    return Grid.from_file(table.GRIDS / f"{name}.toml")


@pytest.mark.parametrize(("name", "rounds", "clients", "cohort"), [("niid", 50, 10, 10), ("niid-100", 500, 100, 10)])
def test_settings_are_those_of_the_scripts_of_niid_bench(name, rounds, clients, cohort):
    grid = grid_of(name)
    for cell in grid.cells:
        for run in grid.plan(cell, {each: {} for each in grid.algorithms}).runs():
            config, training = run.config, run.config.training
            assert (config.clients, config.goal_count, config.rounds.total) == (clients, cohort, rounds)
            assert (training.local_epochs, training.batch_size, training.lr) == (10, 64, 0.01)
            assert (training.momentum, training.weight_decay, training.lr_schedule) == (0.9, 1e-5, "constant")
            assert (config.model.name, config.data.augment) == ("cnn", True)


def test_the_pull_of_fedprox_is_that_of_the_leader_board_in_each_cell():
    printed = {"niid": {"Dirichlet 0.5": 0.001}, "niid-100": {"Dirichlet 0.5": 0.001, "two classes": 0.001}}
    for name, smaller in printed.items():
        grid = grid_of(name)
        for cell in grid.cells:
            runs = list(grid.plan(cell, {"fedprox": {}, "fedavg": {}}).runs())
            pulls = {run.labels[ALGORITHM]: run.config.training.proximal_mu for run in runs}
            assert pulls == {"fedavg": 0, "fedprox": smaller.get(cell, 0.01)}


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_what_is_in_print_is_of_cells_and_algorithms_that_are_there(path):
    grid = Grid.from_file(path)
    assert bool(grid.published) == bool(grid.differs)
    for source in grid.published:
        for cell, row in source.cells.items():
            assert cell in grid.cells and set(row) <= set(grid.algorithms)
            assert all(0.05 < value.mean < 1 for value in row.values())


def test_a_piece_is_what_all_its_words_allow_and_tuning_is_of_every_seed():
    grid = grid_of("personal-digits")
    wanted = grid.piece(["algorithm=ditto", "algorithm=fedbn", "seed=2"])
    reported = [run for run in grid.plan("Dirichlet 0.1", {name: {} for name in grid.algorithms}).runs()]
    kept = [(run.labels[ALGORITHM], run.seed) for run in reported if wanted("Dirichlet 0.1", run)]
    assert kept == [("fedbn", 2), ("ditto", 2)]
    tuning = [run.labels[ALGORITHM] for run in grid.tuning_plan("Dirichlet 0.1").runs() if wanted("Dirichlet 0.1", run)]
    assert tuning == ["fedbn"] * 3 + ["ditto"] * 3


def test_noise_grows_from_group_to_group_up_to_its_level_and_test_images_have_it_too():
    plain, found = load_dataset("digits", ""), noisy(of="digits", clients=5, level=0.1)
    for part, before in ((found.train, plain.train), (found.test, plain.test)):
        moved = np.array(part.inputs).astype(float) - np.array(before.inputs)
        assert 0 < np.abs(moved).mean() / 255 < 0.1
    inside = (np.array(plain.train.inputs) > 80) & (np.array(plain.train.inputs) < 175)  # where little is cut off
    moved = (np.array(found.train.inputs).astype(float) - np.array(plain.train.inputs)) / 255
    groups = np.array(found.train.groups)
    levels = [moved[groups == group][inside[groups == group]].std() for group in range(5)]
    assert levels[0] == 0 and levels == pytest.approx([0, 0.025, 0.05, 0.075, 0.1], rel=0.1)


def run_in(folder, name, *, sha="ab" * 32, status="completed"):
    place = folder / "cell" / "reported" / "runs" / name
    place.mkdir(parents=True)
    (place / "summary.json").write_text(json.dumps({"status": status, "model_sha256": sha}))
    (place / "model.safetensors").write_text(sha)
    return place


def test_parts_are_joined_once_and_what_had_not_ended_gives_way(tmp_path):
    part, mine = tmp_path / "part", tmp_path / "mine"
    for name in ("a", "b"):
        run_in(part, name)
    run_in(part, "failed", status="failed")
    begun = run_in(mine, "b", status="failed")
    (begun / "checkpoint.json").write_text("{}")
    assert join(part, mine) == 2
    assert join(part, mine) == 0
    runs = mine / "cell" / "reported" / "runs"
    assert sorted(path.name for path in runs.iterdir()) == ["a", "b"]
    assert json.loads((runs / "b" / "summary.json").read_text())["status"] == "completed"
    assert not (runs / "b" / "checkpoint.json").exists()


def test_two_models_of_one_run_are_not_joined(tmp_path):
    run_in(tmp_path / "part", "a", sha="cd" * 32)
    run_in(tmp_path / "mine", "a")
    with pytest.raises(UsageError, match=r"ended with cdcdcdcdcdcd, .* with abababababab: keep one"):
        join(tmp_path / "part", tmp_path / "mine")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"status": "completed"}', '{"status": 1, "model_sha256": 2}'])
def test_a_spoiled_summary_is_no_completed_run(tmp_path, text):
    (run_in(tmp_path / "part", "a") / "summary.json").write_text(text)
    with pytest.raises(UsageError, match="it holds no completed run"):
        join(tmp_path / "part", tmp_path / "mine")


def test_the_interval_of_known_values():
    assert Interval.of([2.0, 4.0]).half == pytest.approx(12.7062, abs=1e-4)
    assert Interval.of([1.0, 1.0, 1.0]).text(places=1) == "1.0 [1.0, 1.0]"
