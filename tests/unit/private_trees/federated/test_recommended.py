"""A private table that names no model gets one by declared facts alone, or the reason why it gets none."""

from __future__ import annotations

import numpy as np
import pytest

import fedlearn
from fedlearn.commands.shared import run_settings
from fedlearn.core.errors import SettingError
from fedlearn.models.presets import settings_from
from fedlearn.private_trees.federated.recommended import OF_CLASSES, OF_NUMBERS, Facts, recommended

FIRST, SECOND = np.random.default_rng(1), np.random.default_rng(2)
KINDS = {"number": "target_bounds = [0, 9]", "two": 'classes = ["0", "1"]', "many": 'classes = ["0", "1", "2", "3"]'}


def table(folder, kind, rng=FIRST, rows=60):
    folder.mkdir(exist_ok=True)
    lines = [f"{a},{b}" for a, b in zip(rng.integers(0, 90, rows), rng.integers(0, 2, rows), strict=True)]
    (folder / "rows.csv").write_text("\n".join(["age,y", *lines, ""]))
    (folder / "rows.toml").write_text(f'data = "rows.csv"\ntarget = "y"\n{KINDS[kind]}\nbounds = {{ age = [0, 90] }}\n')
    return str(folder / "rows.toml")


def settings(folder, file, **given):
    flat = {name.replace("__", "."): value for name, value in given.items()}
    return run_settings({"out": str(folder / "run"), "data.dataset": file, **flat}, [], None, environment={})


@pytest.mark.parametrize(
    ("facts", "model"),
    [
        (Facts(2, 25, 1.0), "dp-classifier"),
        (Facts(2, 25, 1.0, records=25 * 800), "dp-boosting"),  # Adult: 6.2 points above the constant, trees 5.0
        (Facts(2, 25, 0.25, records=25 * 800), "dp-classifier"),
        (Facts(2, 25, 0.1, distributed=True), "dp-boosting"),
        (Facts(3, 25, 0.1, records=25 * 400), "dp-random-forest"),
        (Facts(10, 1, 1.0), "dp-random-forest"),
        (Facts(0, 25, 1.0), "dp-relay"),
        (Facts(0, 200, 1.0), "dp-forest"),
        (Facts(0, 1, 0.1, records=2500), "dp-forest"),
        (Facts(0, 1, 1.0, records=20_000), "dp-boosting"),
    ],
)
def test_a_region_has_its_model_and_says_why(facts, model):
    found = recommended(facts)
    assert (found.model, bool(found.why)) == (model, True)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (Facts(2, 25, 0.1), "declare the most records of a client"),
        (Facts(0, 25, 0.1), "declare the most records of a client"),
        (Facts(2, 25, 0.1, records=600), "so few records say"),
        (Facts(0, 25, 0.1, records=20_000), "so few records say"),
    ],
)
def test_noise_that_may_hide_all_gets_no_model(facts, said):
    with pytest.raises(SettingError, match=rf"privacy.epsilon = 0.1: .*{said}.*name a model"):
        recommended(facts)


def test_more_budget_or_more_records_never_lose_a_recommendation():
    for classes in (0, 2, 3):
        for records in (None, 100, 3000, 10**6):
            gets = []
            for epsilon in (0.01, 0.1, 0.3, 1.0, 10.0):
                try:
                    gets.append(bool(recommended(Facts(classes, 25, epsilon, records=records))))
                except SettingError:
                    gets.append(False)
            assert gets == sorted(gets)


def test_every_recommended_model_fits_its_target_and_takes_its_options():
    for kind, regions in (("classes", OF_CLASSES), ("number", OF_NUMBERS)):
        for region in regions:
            given = {"model.name": region.model, "model.options": region.options or "{}"}
            assert settings_from(given).strategy.name, kind


@pytest.mark.parametrize(
    ("kind", "model"), [("number", "dp-relay"), ("two", "dp-classifier"), ("many", "dp-random-forest")]
)
def test_a_table_without_a_model_gets_one_and_a_line_says_which(kind, model, tmp_path, capsys):
    config = settings(tmp_path, table(tmp_path, kind), privacy__epsilon=1.0, clients=4)
    assert config.model.name == model
    assert capsys.readouterr().err.startswith(f"note: model.name = {model}")
    assert config.strategy.name in ("relay", "forest_union"), "the presets are those of the chosen model"


def test_what_is_named_wins_and_rows_say_nothing(tmp_path, capsys):
    first, second = table(tmp_path / "a", "two"), table(tmp_path / "b", "two", SECOND, rows=3)
    given = {"privacy__epsilon": 0.25, "clients": 25}
    assert settings(tmp_path, first, **given).model == settings(tmp_path, second, **given).model
    capsys.readouterr()
    assert settings(tmp_path, first, model__name="dp-boosting", **given).model.name == "dp-boosting"
    assert settings(tmp_path, first, privacy__protects="records", privacy__delta=1e-6, **given).model.name == "cnn"
    assert capsys.readouterr().err == ""


def test_without_a_declaration_the_run_is_refused_as_before(tmp_path):
    table(tmp_path, "two")
    for file in (str(tmp_path / "rows.csv"), str(tmp_path / "none.toml"), "digits"):
        with pytest.raises(SettingError, match="it protects nobody"):
            settings(tmp_path, file, privacy__epsilon=1.0)


def test_a_run_in_python_learns_with_it(tmp_path):
    file = table(tmp_path, "many")
    run = fedlearn.run(12, data=file, epsilon=1.0, engine="inline", progress=False, out=tmp_path / "run")
    stored = run.folder / "settings.toml"
    assert run.summary["epsilon"] == 1.0
    assert '"dp-random-forest"' in stored.read_text() and "n_estimators" in stored.read_text()
