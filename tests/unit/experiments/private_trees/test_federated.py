"""Federated runs of private trees: each is stored, none is run twice, and the table says what the runs said."""

from __future__ import annotations

import csv

import pytest

from experiments.private_trees import federated as dp_federated
from experiments.private_trees.federated import TASKS, Task, cells, main
from fedlearn.models.presets import settings_from

SMALL = ["--task", "diabetes", "--clients", "25", "--epsilons", "8", "--seeds", "2"]


@pytest.fixture
def diabetes(monkeypatch):
    monkeypatch.setitem(TASKS, "diabetes", Task(("dp-forest",), "mae_scaled", "error", 5))


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_every_cell_is_a_run_that_the_schema_accepts_and_no_two_are_alike():
    for task in TASKS:
        all_cells = list(cells(task, clients=(25, 100), epsilons=(0.25, 8.0), seeds=2))
        assert len(set(all_cells)) == len(all_cells) == 2 * 3 * len(TASKS[task].models) * 2 * 2
        for cell in all_cells:
            config = settings_from(cell.settings("somewhere"))
            assert (config.privacy.epsilon, config.clients, config.seed) == (cell.epsilon, cell.clients, cell.seed)
            assert config.strategy.name == ("relay" if cell.model == "dp-relay" else "forest_union")


@pytest.mark.long
def test_runs_are_stored_once_and_the_table_is_their_mean(tmp_path, diabetes, monkeypatch):
    out = tmp_path / "runs.csv"
    main([*SMALL, "--out", str(out)])
    runs, table = rows_of(out), rows_of(tmp_path / "runs.diabetes.table.csv")
    assert len(runs) == 3 * 2
    assert all(float(run["spent"]) == pytest.approx(float(run["epsilon"])) for run in runs)
    assert len({run["model_sha256"] for run in runs}) == len(runs)
    of_first = [float(r["mae"]) for r in runs if (r["shards"], r["epsilon"]) == ("even", "8.0")]
    assert float(table[0]["mae"]) == pytest.approx(sum(of_first) / 2, rel=1e-5)
    assert float(table[0]["mae_spread"]) == pytest.approx(abs(of_first[0] - of_first[1]) / 2**0.5, rel=1e-4)
    assert (tmp_path / "runs.diabetes.tex").read_text().count(r"\\") == 1 + 3
    assert (tmp_path / "runs.diabetes.png").stat().st_size > 10_000

    monkeypatch.setattr(dp_federated, "run", None)
    main([*SMALL, "--out", str(out)])
    assert rows_of(tmp_path / "runs.diabetes.table.csv") == table


@pytest.mark.long
def test_a_lost_row_is_run_again_to_the_same_result(tmp_path, diabetes):
    out = tmp_path / "runs.csv"
    one = [*SMALL[:-1], "1", "--out", str(out)]
    main(one)
    before = rows_of(out)
    out.write_bytes(out.read_bytes()[:-20])
    main(one)
    assert [row["model_sha256"] for row in rows_of(out)] == [row["model_sha256"] for row in before]
