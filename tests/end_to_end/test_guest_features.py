"""Features of a round from outside, which change no file of the core (docs/howto/own_feature.md)."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from safetensors.numpy import load_file

from fedlearn.core.errors import SettingError

PLAIN = {"model.name": "linear", "rounds.cohort": 4}
FLOOR = {**PLAIN, "rounds.features": [{"features:NoiseFloor": {"level": 1.0}}]}


def model_of(run):
    return load_file(run.folder / "model.safetensors")


def test_a_feature_says_a_number_of_each_round_and_leaves_the_model_alone(execute):
    told, plain = execute(FLOOR, engine="inline"), execute(PLAIN, engine="inline")
    assert told.sha == plain.sha
    rows = list(csv.DictReader((told.folder / "metrics.csv").read_text().splitlines()))
    assert [float(row["noise_floor"]) for row in rows] == [0.5] * 2
    assert [event["noise_floor"] for event in told.events_of("committed")] == [0.5] * 2
    assert told.summary["noise_floor"] == 0.5
    assert told.summary["bytes_down"] > plain.summary["bytes_down"]


def test_its_rule_is_asked_before_round_1(execute):
    with pytest.raises(SettingError, match=r"secure.sums = 'unmasked': a secure sum hides single reports: use 'off'"):
        execute({**FLOOR, "secure.sums": "unmasked"}, engine="inline")


def test_its_options_are_checked_as_those_of_any_plugin(execute):
    wrong = {"rounds.features": [{"features:NoiseFloor": {"levle": 1.0}}]}
    with pytest.raises(SettingError, match="did you mean level"):
        execute({**FLOOR, **wrong}, engine="inline")
    with pytest.raises(SettingError, match="name a class derived from Feature"):
        execute({**FLOOR, "rounds.features": "features:FLOOR"}, engine="inline")


@pytest.mark.parametrize("engine", ["inline", pytest.param("embedded", marks=pytest.mark.long)])
def test_another_sum_than_that_of_reports_comes_to_the_same_model(execute, engine):
    asked = execute({**PLAIN, "rounds.features": "features:SumOfAnswers"}, engine=engine)
    plain = execute(PLAIN, engine="inline")
    for name, array in model_of(plain).items():
        np.testing.assert_allclose(model_of(asked)[name], array, rtol=1e-6)
    assert asked.summary["bytes_down"] > plain.summary["bytes_down"]
