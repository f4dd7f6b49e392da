"""Networks on declared tables from frames, against a preparation and measures that are written out here."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from torch import nn

import fedlearn
from fedlearn.commands.verified import verified
from fedlearn.core.errors import UsageError
from fedlearn.data import from_arrays, from_frame
from fedlearn.predicting import Preparation

SMALL = {"clients": 3, "rounds": 2, "batch_size": 20, "engine": "inline", "progress": False}
JOBS = ["clerk", "farmer", "nurse"]
TABLE = {"bounds": {"age": (18, 90), "pay": (1, 1000, "log")}, "categories": {"job": JOBS}}
RANGES = {"warmth": (0, 40), "rain": (100, 900)}


def people(rows, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.integers(18, 95, rows).astype(float), "pay": rng.integers(1, 1000, rows)})
    frame["job"] = rng.choice(np.array([*JOBS, "pilot", None], object), rows)
    frame["warmth"], frame["rain"] = frame.age / 3, 900 - 8 * frame.age + 50 * (frame.job == "nurse")
    frame["flu"], frame["cold"] = frame.age > 50, frame.job == "nurse"
    frame.loc[::7, "age"] = np.nan
    return frame


def inputs_by_hand(frame):
    age = ((frame.age.clip(18, 90) - 54) / 36).fillna(0)
    pay = 2 * np.log(frame.pay.clip(1, 1000)) / np.log(1000) - 1
    return np.column_stack([age, pay, *(frame.job == job for job in JOBS)]).astype(np.float32)


def by_hand(run, inputs):
    """Return the outputs of a linear model."""
    weight, bias = (next(each for name, each in run.state.items() if name.endswith(end)) for end in ("weight", "bias"))
    return (inputs @ weight.T + bias).astype(float)


@pytest.mark.parametrize("model", ["linear", pytest.param(lambda: nn.Linear(5, 2), marks=pytest.mark.long)])
def test_several_targets_are_predicted_and_measured_each_in_its_unit(model, tmp_path):
    test = people(90, 2)
    data = from_frame(people(300, 1), test, targets=list(RANGES), target_bounds=RANGES, **TABLE)
    run = fedlearn.run(data=data, model=model, out=str(tmp_path / "run"), **SMALL)
    found = by_hand(run, inputs_by_hand(test)) * [20, 400] + [20, 500]
    assert list(run.predict(test[["job", "pay", "age"]])) == list(RANGES)
    np.testing.assert_allclose(run.predict(test), found, rtol=1e-5)
    errors = np.abs(found - test[list(RANGES)])
    for name, error in errors.mean().items():
        assert run.summary[f"mae_{name}"] == pytest.approx(error, rel=1e-5)
    assert run.summary["mae_scaled"] == pytest.approx((errors / [40, 800]).to_numpy().mean(), rel=1e-5)
    assert run.summary["best_mae_scaled"] <= run.summary["mae_scaled"] and "mae" not in run.summary
    assert run.evaluate((test, ["rain", "warmth"]))["mae_rain"] == pytest.approx(run.summary["mae_rain"])


@pytest.mark.long
def test_means_and_deviations_of_all_nodes_scale_a_later_run_and_its_new_rows(tmp_path):
    rows, test = people(600, 1), people(90, 2)
    kept = {**TABLE, "bounds": {"age": (0, 150), "pay": (1, 1000, "log")}}
    data = from_frame(rows, test, target="rain", target_bounds=(0, 10_000), **kept)
    once = {"clients": 4, "engine": "inline", "progress": False, "settings": {"secure.sums": "masked"}}
    measured = fedlearn.run(data=data, model="statistics", out=str(tmp_path / "stats"), **once)
    found = measured.model().columns
    for name in ("age", "rain"):
        assert found[name].mean == pytest.approx(rows[name].mean(), rel=1e-5)
        assert found[name].std == pytest.approx(rows[name].std(ddof=0), rel=1e-3)

    def run(name, scaling):
        return fedlearn.run(
            data=data, model="linear", out=str(tmp_path / name), settings={"data.scaling": scaling}, **SMALL
        )

    scaled = run("scaled", str(tmp_path / "stats"))
    (tmp_path / "stats").rename(tmp_path / "moved")
    inputs = inputs_by_hand(test)
    inputs[:, 0] = ((test.age - found["age"].mean) / found["age"].std).fillna(0)
    outputs = by_hand(scaled, inputs)[:, 0] * found["rain"].std + found["rain"].mean
    np.testing.assert_allclose(scaled.predict(test), outputs, rtol=1e-5)
    assert scaled.summary["mae"] == pytest.approx(np.abs(outputs - test.rain).mean(), rel=1e-5)
    scaled.preparation.save(tmp_path / "saved.json")
    np.testing.assert_array_equal(Preparation.read(tmp_path / "saved.json").inputs(test).numpy(), inputs)
    longer = fedlearn.run(resume=scaled, rounds=3, progress=False)
    again = run("again", {name: (each.mean, each.std) for name, each in found.items() if each.mean == each.mean})
    assert (
        fedlearn.run(resume=again, rounds=3, progress=False).summary["model_sha256"] == longer.summary["model_sha256"]
    )
    assert scaled.summary["mae"] < run("by range", "").summary["mae"]
    with pytest.raises(UsageError, match=r"data\.scaling"):
        run("wrong", {"height": (0, 1)})


def test_a_declaration_that_has_changed_is_found_and_refused(tmp_path):
    people(60, 1).to_csv(tmp_path / "people.csv", index=False)
    text = "data = 'people.csv'\ntarget = 'rain'\ntarget_bounds = [0, 1000]\nbounds = { age = [18, 100] }\n"
    (tmp_path / "t.toml").write_text(text)
    run = fedlearn.run(data=tmp_path / "t.toml", model="linear", out=tmp_path / "run", **SMALL)
    (tmp_path / "t.toml").write_text(text.replace("18, 100", "18, 190"))
    with pytest.raises(UsageError, match=r"t\.toml: its declaration has changed since the run in"):
        fedlearn.run(resume=run, rounds=3, progress=False)
    assert any("declares its table in another way" in line for line in verified(run.folder, again=False).wrong)
    (tmp_path / "t.toml").write_text(text)
    assert not verified(run.folder, again=False).wrong
    assert fedlearn.run(resume=run, rounds=3, progress=False).summary["rounds"] == 3


@pytest.mark.long
def test_deviations_are_paid_where_noise_protects_records(tmp_path):
    data = from_frame(people(3000, 1), target="flu", classes=["False", "True"], **TABLE)
    run = fedlearn.run(
        data=data,
        model="dp-statistics",
        epsilon=4,
        clients=3,
        out=str(tmp_path / "run"),
        engine="inline",
        progress=False,
    )
    age = run.model().columns["age"]
    assert run.summary["epsilon"] == 4 and abs(age.mean - 54) < 6 and 15 < age.std < 30
    scaled = {"settings": {"data.scaling": run}, "out": str(tmp_path / "scaled"), **SMALL}
    assert fedlearn.run(data=data, model="mlp", **scaled).spec.mean[0] == age.mean


@pytest.mark.parametrize("declared", [True, False])
def test_a_built_in_model_has_a_logit_for_each_of_several_labels(declared, tmp_path):
    rows, test = people(300, 1).dropna(), people(90, 2).dropna()
    if declared:
        data = from_frame(rows, test, targets=["flu", "cold"], classes=["False", "True"], **TABLE)
    else:
        data = from_frame(rows, test, targets=["flu", "cold"], inputs=["age", "warmth"])
    run = fedlearn.run(data=data, model="linear", lr=1e-3, out=str(tmp_path / "run"), **SMALL)
    inputs = inputs_by_hand(test) if declared else test[["age", "warmth"]].to_numpy(np.float32)
    shares = 1 / (1 + np.exp(-by_hand(run, inputs)))
    np.testing.assert_allclose(run.predict_proba(test), shares, atol=1e-5)
    known = (run.predict(test) == "True") if declared else run.predict(test)
    for place, name in enumerate(("flu", "cold")):
        assert run.summary[f"accuracy_{name}"] == pytest.approx(((shares[:, place] > 0.5) == test[name]).mean())
        np.testing.assert_array_equal(known[name], shares[:, place] > 0.5)
    assert run.summary["accuracy"] == pytest.approx((run.summary["accuracy_flu"] + run.summary["accuracy_cold"]) / 2)


@pytest.mark.parametrize(("model", "side"), [pytest.param("cnn", 16, marks=pytest.mark.long), ("mlp", 4)])
def test_labels_of_pictures_are_learned_without_a_loss_that_is_named(model, side, tmp_path):
    images = np.random.default_rng(1).integers(0, 256, (60, side, side, 1), np.uint8)
    labels = np.stack([images[:, 0].mean((1, 2)) > 127, images[:, -1].mean((1, 2)) > 127], 1)
    run = fedlearn.run(data=from_arrays(images, labels), model=model, out=str(tmp_path / "run"), **SMALL)
    assert run.predict(images).shape == (60, 2) and 0 <= run.summary["all_right"] <= run.summary["accuracy"] <= 1


def test_targets_of_unlike_scale_are_said(tmp_path, caplog):
    frame = people(60, 1)[["pay", "warmth", "rain"]].dropna()
    quiet = {**SMALL, "rounds": 1, "lr": 1e-6}
    fedlearn.run(data=(frame, ["warmth", "rain"]), model="linear", out=str(tmp_path / "run"), **quiet)
    assert "targets of unlike scale: 'rain' reaches" in caplog.text
