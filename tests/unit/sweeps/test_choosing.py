"""What a sweep chooses: by validation rows, with files that say it; nothing on private rows."""

from __future__ import annotations

import csv
import json
import tomllib
from dataclasses import replace

import pytest

from fedlearn.config import config_from
from fedlearn.config.config_sources import layers_of_file, merged
from fedlearn.core.metric import ACCURACY
from fedlearn.core.metrics import NEURAL_CLASSIFIER
from fedlearn.sweeps.best_settings import write_choice
from fedlearn.sweeps.results import Result
from fedlearn.sweeps.sweep_plan import Plan

BASE = {"model.name": "linear", "data.dataset": "digits"}
RATES = {"training.lr": {str(rate): {"training.lr": rate} for rate in (0.1, 0.2, 0.3)}}
METRICS = replace(NEURAL_CLASSIFIER, reported=(), evaluated=(ACCURACY,)).on_validation_rows().to_plain()


def results_of(plan, scores, folder, *, rows="validation rows"):
    """Return a result for each run, whose folders hold summaries: rate -> (validation, test) of each seed."""
    found = []
    for run in plan.runs():
        judged, tested = scores[run.labels["training.lr"]][run.seed - 1]
        place = folder / run.name
        place.mkdir(parents=True)
        (place / "metrics.csv").write_text(f"round_number,validation_accuracy\n1,{judged}\n")
        summary = {"status": "completed", "rounds": 1, "seed": run.seed, "chosen_on": rows, "model_sha256": "1"}
        summary |= {"validation_accuracy": judged, "accuracy": tested}
        (place / "summary.json").write_text(json.dumps(summary))
        events = [{"event": "started", "time": 0, "rounds": 1, "metrics": METRICS}, {"event": "ended", "time": 1}]
        lines = [json.dumps({"status": "completed", **event}) for event in events]
        (place / "events.jsonl").write_text("\n".join(lines) + "\n")
        result = Result.read(run, place)
        assert result is not None
        found.append(result)
    return found


@pytest.mark.parametrize(("more", "share"), [("test = 'public.csv'\n", "0.5"), ("", "")])
def test_private_runs_have_validation_rows_where_a_declaration_names_public_test_rows(more, share, tmp_path):
    for name in ("own", "public"):
        (tmp_path / f"{name}.csv").write_text("a,y\n1,no\n2,yes\n3,no\n")
    declared = "data = 'own.csv'\ntarget = 'y'\nclasses = ['no', 'yes']\nbounds = { a = [0, 9] }\n"
    (tmp_path / "own.toml").write_text(more + declared)
    base = {"model.name": "dp-naive-bayes", "data.dataset": str(tmp_path / "own.toml")}
    axis = {"privacy.epsilon": {"1": {"privacy.epsilon": 1.0}}}
    assert [run.config.data.validation_share for run in Plan("", (1,), base, axis, validates=True).runs()] == [share]


SCORES = {
    "0.1": [(0.50, 0.99), (0.52, 0.98), (0.51, 0.99)],  # the best on test rows, which choose nothing
    "0.2": [(0.90, 0.70), (0.92, 0.71), (0.91, 0.73)],
    "0.3": [(0.80, 0.40), (0.79, 0.41), (0.81, 0.43)],
}


@pytest.fixture
def plan():
    return Plan("", (1, 2, 3), BASE, RATES, validates=True)


def test_validation_rows_choose_and_test_rows_are_reported(plan, tmp_path):
    said, apart, how = write_choice(plan, results_of(plan, SCORES, tmp_path / "runs"), tmp_path)
    assert said.startswith("best of 3: training.lr=0.2, chosen by validation accuracy 0.91")
    assert "accuracy 0.7133 ± 0.0153 on the test rows, measured once" in said
    assert apart.startswith("training.lr=0.1 is better than training.lr=0.2 by 0.27")
    assert "Holm" in how
    config = config_from(merged(layers_of_file(tmp_path / "best.toml")))
    assert (config.training.lr, config.model.name) == (0.2, "linear")
    rows = list(csv.DictReader((tmp_path / "differences.csv").read_text().splitlines()))
    assert [(row["other"], row["seeds"]) for row in rows] == [("training.lr=0.1", "3"), ("training.lr=0.3", "3")]
    assert float(rows[1]["low"]) > 0.2 and float(rows[1]["p_holm"]) < 0.05


def test_private_rows_choose_nothing_and_files_of_an_earlier_choice_go(plan, tmp_path):
    write_choice(plan, results_of(plan, SCORES, tmp_path / "runs"), tmp_path)
    (line,) = write_choice(plan, results_of(plan, SCORES, tmp_path / "private", rows="private test rows"), tmp_path)
    assert "a private run chooses by public rows only" in line
    assert not (tmp_path / "best.toml").exists() and not (tmp_path / "differences.csv").exists()


def test_runs_of_a_sweep_have_validation_rows_unless_told_otherwise_or_where_none_may_choose():
    def shares(**settings):
        return {run.config.data.validation_share for run in Plan("", (1,), BASE | settings, RATES, True).runs()}

    assert shares() == {"0.5"}
    assert shares(**{"data.validation_share": 0.2}) == {"0.2"}
    assert shares(**{"evaluation.where": "nodes"}) == {""}
    private = {"model.name": "dp-forest", "data.dataset": "people.toml"}
    assert {run.config.data.validation_share for run in Plan("", (1,), private, {}, True).runs()} == {""}
    assert tomllib.loads(Plan("", (1,), BASE, RATES, True).to_toml())["base"] == BASE
