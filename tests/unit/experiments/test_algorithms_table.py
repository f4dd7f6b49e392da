"""Tables of algorithms: tuning sees no test example, ranks and targets are what they say, what ran is not run again."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from experiments.algorithms import table
from experiments.algorithms.dealing import quantity, untested
from experiments.algorithms.grids import Grid
from experiments.algorithms.tuning import _best
from fedlearn.config import config_from
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.data import load_dataset
from fedlearn.data.partitioning import partition_table

GRIDS = sorted(table.GRIDS.glob("*.toml"))
DEALT = {"partition": "dirichlet", "alpha": 0.3, "node_test_share": 0.25}


def test_tuning_sees_no_example_that_a_node_of_a_reported_run_tests_on():
    digits, seeds = load_dataset("digits", ""), [1, 2]
    data = config_from({f"data.{name}": value for name, value in DEALT.items()}).data
    tables = [partition_table(digits, data, num_partitions=5, seed=seed) for seed in seeds]
    tested = np.unique(np.concatenate([each.held_out(node) for each in tables for node in range(5)]))
    nodes = untested(digits, 5, 0, as_settings=DEALT, seeds=seeds)
    assert (nodes[tested] == -1).all() and (nodes == -1).sum() == len(tested)
    for node in range(5):
        assert set(np.flatnonzero(nodes == node)) <= set(tables[0].indices(node))


def test_quantity_skews_sizes_alone_and_leaves_each_node_ten_examples():
    digits = load_dataset("digits", "")
    nodes = quantity(digits, 6, 3)
    assert len(nodes) == len(digits.train) and np.bincount(nodes).max() > 5 * np.bincount(nodes).min()
    assert (nodes == quantity(digits, 6, 3)).all() and (nodes != quantity(digits, 6, 4)).any()
    assert min(np.bincount(quantity(digits, 6, seed, alpha=0.3), minlength=6).min() for seed in range(5)) >= 10
    with pytest.raises(SettingError, match="larger, so that 200 nodes have 10 examples each"):
        quantity(digits, 200, 1)


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
@pytest.mark.parametrize("quick", [False, True])
def test_every_run_of_every_grid_has_settings_that_can_be(path, quick):
    grid = Grid.from_file(path, quick=quick)
    for cell in grid.cells:
        assert list(grid.plan(cell, {name: {} for name in grid.algorithms}).runs())
        tuned = list(grid.tuning_plan(cell).runs())
        assert len(tuned) == len(grid.algorithms) * len(grid.values())
        assert all(run.config.evaluation.where == "none" for run in tuned)


def test_of_equal_scores_the_first_value_wins_and_a_failed_run_never():
    assert _best([("a", 0.5), ("b", 0.7), ("c", 0.7), ("d", None)]) == "b"
    assert _best([("a", None)]) is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "cell=moon"], "--only cell=moon: there is no such piece; there are cell = Dirichlet 0.1"),
        (["--only", "algorithm=ours"], "there are cell = Dirichlet 0.1; algorithm = local, fedavg"),
        (["--only", "seed=4"], "seed = 1, 2, 3"),
        (["--only", "fedavg"], "--only fedavg: there is no such piece"),
        (["--join", "/nowhere/else"], "--join /nowhere/else: it holds no completed run"),
        (["--with", "mine"], "--with mine: write it as NAME=module:Class"),
    ],
)
def test_a_wrong_name_is_one_line_and_exit_2(arguments, said, capsys, tmp_path):
    with pytest.raises(SystemExit) as end:
        table.main(["personal-digits", "--out", str(tmp_path), *arguments])
    assert end.value.code == 2 and said in capsys.readouterr().err


def test_a_grid_with_another_key_is_refused(tmp_path):
    file = tmp_path / "grid.toml"
    file.write_text('title = "x"\ncolour = "red"\n')
    with pytest.raises(UsageError, match="there is no colour"):
        Grid.from_file(file)


@pytest.mark.long
def test_a_table_is_tuned_run_and_not_run_again_with_a_guest_beside(tmp_path, monkeypatch, capsys):
    (tmp_path / "lab.py").write_text(
        "from fedlearn.strategies.fedavg import FedAvg\n\n\nclass Mine(FedAvg):\n    pass\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    only = [f"--only=algorithm={name}" for name in ("local", "fedavg", "mine")]
    command = ["personal-digits", "--quick", "--out", str(tmp_path / "out"), "--with", "mine=lab:Mine", *only]
    table.main([*command, "--only", "seed=1"])
    page = tmp_path / "out" / "page.md"
    assert '--only cell="Dirichlet 0.1" --only seed=2' in page.read_text()
    table.main(command)
    place = tmp_path / "out" / "Dirichlet_0.1"
    shas = {row.split(",")[0]: row for row in (place / "table.csv").read_text().splitlines()}
    assert shas["mine"].rsplit(",", 1)[1] == shas["fedavg"].rsplit(",", 1)[1]  # it is FedAvg
    before = (place / "table.csv").read_bytes(), (place / "tuning" / "tuning.md").read_bytes()
    capsys.readouterr()
    table.main(command)
    assert "runs were there already" in capsys.readouterr().out
    assert before == ((place / "table.csv").read_bytes(), (place / "tuning" / "tuning.md").read_bytes())
    assert Path(place / "table.md").read_text().count("\n") == 5
    assert "--only seed=2 --only algorithm=fedper --only algorithm=fedrep" in page.read_text()
    part = tmp_path / "elsewhere" / "part"
    shutil.copytree(tmp_path / "out", part)
    table.main([*command[:3], str(tmp_path / "joined"), *command[4:6], "--join", str(part), "--draw"])
    assert before[0] == (tmp_path / "joined" / "Dirichlet_0.1" / "table.csv").read_bytes()
