"""Successive halving: worse points are paused, and the one that is left ends with the bytes of an undisturbed run."""

from __future__ import annotations

import pytest

import fedlearn
from fedlearn.core.errors import UsageError
from fedlearn.sweeps.best_settings import write_choice
from fedlearn.sweeps.halving import run_halving
from fedlearn.sweeps.sweep_plan import Plan

BASE = {
    "data.dataset": "digits", "model.name": "linear", "clients": 4, "rounds.total": 4, "training.local_epochs": 1,
    "training.batch_size": 50, "engine.name": "inline",
}  # fmt: skip
RATES = {"training.lr": {str(rate): {"training.lr": rate} for rate in (0.05, 0.00001)}}


@pytest.mark.long
def test_one_point_is_left_with_the_bytes_of_a_run_that_was_never_paused(tmp_path):
    plan = Plan("", (1,), BASE, RATES, validates=True)
    said = []
    results = run_halving(plan, tmp_path, say=said.append)
    assert said == ["after 2 rounds 1 of 2 points continue"]
    good, bad = results
    assert (good.summary["rounds"], bad.summary["rounds"], bad.summary["paused"]) == (4, 2, True)
    assert "accuracy" in good.summary and "accuracy" not in bad.summary  # test rows are measured after the last round
    whole = fedlearn.run(settings={**BASE, "training.lr": 0.05}, progress=False, out=tmp_path / "whole")
    assert good.summary["model_sha256"] == whole.summary["model_sha256"]
    (line,) = write_choice(plan, results, tmp_path)
    assert line.startswith("best of 2: training.lr=0.05, chosen by validation accuracy")
    again = run_halving(plan, tmp_path, say=said.append)
    assert [result.summary for result in again] == [result.summary for result in results]


def test_points_of_unlike_length_are_refused(tmp_path):
    axis = {"rounds.total": {str(total): {"rounds.total": total} for total in (2, 4)}}
    with pytest.raises(UsageError, match=r"all points need one rounds\.total"):
        run_halving(Plan("", (1,), BASE, axis), tmp_path)


def test_rounds_that_nothing_has_measured_are_refused(tmp_path):
    plan = Plan("", (1,), {**BASE, "evaluation.every": 4}, RATES)
    with pytest.raises(UsageError, match="after round 2, up to which nothing is evaluated"):
        run_halving(plan, tmp_path)
