"""The tables of a sweep, from run folders."""

from __future__ import annotations

import csv
import json

import pytest

from experiments.sweeps import figures
from fedlearn.report.charts.plots import drawn
from fedlearn.sweeps.results import Result, point_row, points_of, write_tables
from fedlearn.sweeps.sweep_plan import Plan

PLAN = Plan("T", (1, 2), {"clients": 4}, {"keep": {"1": {}, "0.1": {"compression.codec": "drop"}}})
SUMMARY = {
    "status": "completed", "reason": "", "dataset": "digits", "dataset_notice": "", "model": "cnn", "accuracy": 0.5,
    "loss": 1.0, "best_accuracy": 0.5, "best_round": 2, "rounds": 2, "clients": 4, "bytes_up": 1000, "bytes_down": 2000,
    "bytes_protocol": 10, "compression_ratio": 1.0, "seconds": 3.2, "seed": 1, "model_sha256": "ab",
}  # fmt: skip
ROUNDS = """round_number,cohort,bytes_up,training_seconds,train_loss,loss,accuracy
1,2,500,0.7,2.0,,
2,2,500,0.8,1.5,1.0,0.5
"""


@pytest.fixture
def result_of(tmp_path):
    def result_of(run, rounds=ROUNDS, **changes) -> Result | None:
        folder = tmp_path / run.name
        folder.mkdir(exist_ok=True)
        (folder / "summary.json").write_text(json.dumps({**SUMMARY, "seed": run.seed, **changes}))
        (folder / "metrics.csv").write_text(rounds)
        return Result.read(run, folder)

    return result_of


@pytest.fixture
def results(result_of):
    runs = list(PLAN.runs())
    return [result_of(run, accuracy=accuracy) for run, accuracy in zip(runs, (0.5, 0.4, 0.7, 0.4), strict=True)]


def read(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_tables_hold_seconds_of_devices_and_not_what_these_were(result_of, tmp_path):
    rounds = "round_number,training_seconds,virtual_seconds,virtual_training_seconds\n1,0.7,30.0,20.0\n"
    devices = {"all": {"nodes": 4, "up": 1e9}}
    (run, *_) = PLAN.runs()
    write_tables([result_of(run, rounds, virtual_seconds=30.0, devices=devices)], tmp_path)
    (row,) = read(tmp_path / "rounds.csv")
    assert (row["virtual_seconds"], row["virtual_training_seconds"]) == ("30", "20")
    assert "training_seconds" not in row
    (row,) = read(tmp_path / "runs.csv")
    assert row["virtual_seconds"] == "30.0"
    assert "devices" not in row


def test_tables_hold_results_and_no_seconds(results, tmp_path):
    write_tables(results, tmp_path)
    runs, rounds, points = (read(tmp_path / f"{name}.csv") for name in ("runs", "rounds", "points"))
    assert list(runs[0]) == [
        "run", "keep", "seed", "status", "rounds", "accuracy", "loss", "best_accuracy", "best_round",
        "bytes_up", "bytes_down", "compression_ratio", "model_sha256", "reason",
    ]  # fmt: skip
    assert [row["accuracy"] for row in runs] == ["0.5", "0.4", "0.7", "0.4"]
    assert list(rounds[0]) == ["run", "keep", "seed", "round", "cohort", "bytes_up", "train_loss", "loss", "accuracy"]
    assert [(row["round"], row["accuracy"]) for row in rounds[:2]] == [("1", ""), ("2", "0.5")]
    assert [(row["keep"], row["seeds"]) for row in points] == [("1", "2"), ("0.1", "2")]
    assert float(points[0]["accuracy_mean"]) == pytest.approx(0.6)
    assert float(points[0]["accuracy_sd"]) == pytest.approx(0.2 / 2**0.5)


def test_failed_run_has_a_row_and_counts_for_no_point(result_of, tmp_path):
    first, *_ = PLAN.runs()
    failed = result_of(first, status="failed", reason="why", accuracy=None)
    write_tables([failed], tmp_path)
    assert read(tmp_path / "runs.csv")[0]["reason"] == "why"
    assert points_of([failed]) == []


def test_one_seed_has_no_spread(results):
    (point,) = points_of(results[:1])
    assert point_row(point)["accuracy_sd"] is None


def test_run_without_a_summary_has_not_ended(tmp_path):
    assert Result.read(next(PLAN.runs()), tmp_path) is None


def test_curves_are_drawn_where_all_seeds_have_a_value(results, tmp_path):
    point, _ = points_of(results)
    with drawn(tmp_path, "figure") as (panel,):
        figures.curve(panel, point, over="bytes")
        assert panel.lines[0].get_xydata().tolist() == [[0.001, 0.5]]
        assert len(panel.collections) == 1  # the band: two seeds
    assert (tmp_path / "figure.png").stat().st_size > 1000
    assert (tmp_path / "figure.svg").stat().st_size > 1000


def test_table_is_written_as_markdown_and_latex(results, tmp_path, capsys):
    figures.write_table(points_of(results), tmp_path, caption="90 % & more", plain=("keep", "1"))
    assert "± 0.1414" in capsys.readouterr().out
    assert (tmp_path / "table.md").read_text().splitlines()[2] == "| 1 | 2 | 0.6000 ± 0.1414 |  | 0.00 | 1.0 |"
    latex = (tmp_path / "table.tex").read_text()
    assert r"\caption{90 \% \& more}" in latex
    assert r"0.6000 $\pm$ 0.1414" in latex
