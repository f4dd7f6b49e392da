"""Validation rows choose; test rows are measured once, and training keeps its bytes."""

from __future__ import annotations

import numpy as np
import pytest

import fedlearn
from fedlearn.core.errors import SettingError
from fedlearn.data.digits import load
from fedlearn.data.validation import measured_rows

TINY = {
    "dataset": "digits", "model": "linear", "clients": 4, "rounds": 3, "local_epochs": 1, "batch_size": 50,
    "engine": "inline", "progress": False,
}  # fmt: skip


def test_rows_that_choose_are_not_reported_and_training_keeps_its_bytes(tmp_path):
    plain = fedlearn.run(**TINY, out=tmp_path / "plain")
    run = fedlearn.run(**TINY, validation_share=0.3, out=tmp_path / "run")
    assert run.summary["model_sha256"] == plain.summary["model_sha256"]
    assert (run.summary["chosen_on"], plain.summary["chosen_on"]) == ("validation rows", "the test rows")
    rows = [measured_rows(load("").test, 0.3, once=once) for once in (False, True)]
    assert sorted(np.concatenate([part.places for part in rows]).tolist()) == list(range(355))
    judged, reported = (run.evaluate(part.at(0, len(part)))["accuracy"] for part in rows)
    assert run.summary["validation_accuracy"] == pytest.approx(judged)
    assert run.history["validation_accuracy"].iloc[-1] == pytest.approx(judged, abs=1e-6)
    assert run.summary["accuracy"] == run.evaluate()["accuracy"] == pytest.approx(reported)
    assert run.summary["best_accuracy"] == pytest.approx(run.evaluate(best=True)["accuracy"])
    assert "accuracy" not in run.history


def test_run_that_stops_early_chooses_on_half_of_the_test_rows_unless_told_otherwise(tmp_path):
    run = fedlearn.run(**TINY, patience=2, out=tmp_path / "run")
    assert run.settings.data.validation_share == "0.5"
    more = fedlearn.run(resume=tmp_path / "run", rounds=4, patience=0, progress=False)
    assert more.summary["rounds"] == 4 and more.summary["chosen_on"] == "validation rows"
    told = fedlearn.run(**TINY, patience=2, validation_share=0, out=tmp_path / "told")
    assert told.summary["chosen_on"] == "the test rows"


def test_folder_from_before_there_were_validation_rows_goes_on_as_it_was(tmp_path):
    run = fedlearn.run(**TINY, validation_share=0, patience=2, out=tmp_path)
    settings = tmp_path / "settings.toml"
    kept = [line for line in settings.read_text().splitlines() if "validation_share" not in line]
    settings.write_text("\n".join(kept))
    assert fedlearn.run(resume=tmp_path, rounds=4, progress=False).summary["chosen_on"] == "the test rows"
    assert run.summary["rounds"] == 4


def test_models_of_nodes_that_train_alone_are_measured_on_the_same_rows(tmp_path):
    lone = {"settings": {"training.baseline": "local"}}
    run = fedlearn.run(**TINY, **lone, validation_share=0.3, out=tmp_path / "run")
    plain = fedlearn.run(**TINY, **lone, out=tmp_path / "plain")
    share = 106 / 355  # of the test rows
    for name in ("accuracy", "loss"):
        both = share * run.summary[f"validation_{name}"] + (1 - share) * run.summary[name]
        assert both == pytest.approx(plain.summary[name], rel=1e-5)


def test_validation_rows_need_rows_at_the_server(tmp_path):
    with pytest.raises(SettingError, match=r"evaluation.where = 'nodes'"):
        fedlearn.run(**TINY, validation_share=0.3, settings={"evaluation.where": "nodes"}, out=tmp_path / "run")
