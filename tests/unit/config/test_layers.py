"""Settings from files of every format, from files that they include, and from the environment."""

from __future__ import annotations

import json

import jsonschema
import pytest

from fedlearn.cli import main
from fedlearn.commands.settings import json_schema
from fedlearn.commands.shared import run_settings
from fedlearn.config import RunConfig
from fedlearn.config.config_sources import layer_of_environment, layers_of_file, merged, source_of
from fedlearn.core.errors import SettingError, UsageError

SAME = {
    "same.toml": "seed = 4\nclients = 6\n[training]\nlr = 0.2\n[strategy.options]\ntrim = 0.2\n",
    "same.json": '{"seed": 4, "clients": 6, "training.lr": 0.2, "strategy": {"options": {"trim": 0.2}}}',
    "same.yaml": "seed: 4\nclients: 6\ntraining: {lr: 0.2}\nstrategy.options: {trim: 0.2}\n",
}


@pytest.fixture
def written(tmp_path):
    def written(**files):
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text)
        return tmp_path

    return written


def test_every_format_holds_the_same_settings(tmp_path):
    for name, text in SAME.items():
        (tmp_path / name).write_text(text)
    flat = [merged(layers_of_file(tmp_path / name)) for name in SAME]
    assert flat[0] == flat[1] == flat[2]
    assert flat[0]["strategy.options"] == {"trim": 0.2}


def test_later_files_win_over_earlier_ones_and_what_is_given_over_all(written, tmp_path):
    folder = written(a_toml="seed = 2\nclients = 7\nrounds.total = 2", b_json='{"seed": 3, "rounds": {"total": 3}}')
    files = [folder / "a.toml", folder / "b.json"]
    environment = {"FEDLEARN__ROUNDS__TOTAL": "4", "FEDLEARN__ROUNDS__COHORT": "2"}
    given = {"rounds.cohort": 1, "out": str(tmp_path / "run")}
    config = run_settings(given, files, None, environment=environment)
    assert (config.clients, config.seed, config.rounds.total, config.rounds.cohort) == (7, 3, 4, 1)


def test_a_file_wins_over_what_it_includes_and_a_circle_is_named(written):
    folder = written(
        base_toml="seed = 2\nclients = 7", top_yaml="include: [base.toml]\nseed: 3\n", x_toml='include = "x.toml"'
    )
    layers = layers_of_file(folder / "top.yaml")
    assert merged(layers) == {"seed": 3, "clients": 7}
    assert source_of("clients", layers).endswith("base.toml")
    with pytest.raises(UsageError, match="which includes it"):
        layers_of_file(folder / "x.toml")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", "{", "not valid JSON"),
        ("a.yml", "a: [", "not valid YAML"),
        ("a.json", "[1]", "holds no table"),
        ("a.toml", "include = 3", "no file and no list"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=said) as error:
        layers_of_file(tmp_path / name)
    assert name in str(error.value) and "\n" not in str(error.value)


def test_a_wrong_value_names_the_file_that_it_stands_in(written, tmp_path):
    folder = written(a_toml="training.lr = 0.1", b_json='{"training.lr": -1, "seed": 2}', c_toml="seed = 3")
    files = [folder / name for name in ("a.toml", "b.json", "c.toml")]
    with pytest.raises(SettingError, match=r"training.lr = -1: .*b\.json"):
        run_settings({"out": str(tmp_path / "run")}, files, None)


def test_variables_need_double_underscores_and_a_wrong_one_is_named(tmp_path, capsys):
    environment = {"FEDLEARN_SEED": "9", "FEDLEARN_DATA": "x", "FEDLEARN__SEED": "4"}
    assert layer_of_environment(environment).flat == {"seed": 4}
    run_settings({"out": str(tmp_path / "run")}, [], None, environment=environment)
    assert capsys.readouterr().err == "note: from the environment (FEDLEARN__*): seed = 4\n"
    with pytest.raises(UsageError, match=r"FEDLEARN__TRAINING__LEARNING_RATE.*did you mean training\.lr"):
        layer_of_environment({"FEDLEARN__TRAINING__LEARNING_RATE": "1"})


def test_the_schema_takes_all_defaults_and_refuses_what_is_wrong():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({**RunConfig().model_dump(), "include": "base.toml"}, schema)
    jsonschema.validate({"strategy": {"options": {"trim": 0.1}}, "stop": {"target": 0.5, "time_limit": "5m"}}, schema)
    for wrong in ({"clients": 0}, {"training": {"lr": "fast"}}, {"training": {"lrr": 0.1}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
    assert json.dumps(schema).count("{names}") == 0


def test_explain_says_which_value_came_from_where(written, monkeypatch, capsys):
    folder = written(a_toml='clients = 7\nmodel.name = "dp-forest"', b_json='{"seed": 3}')
    monkeypatch.setenv("FEDLEARN__PRIVACY__EPSILON", "2")
    files = [f"--config={folder / name}" for name in ("a.toml", "b.json")]
    with pytest.raises(SystemExit):
        main(["settings", "--explain", *files, "--cohort", "2"])
    lines = dict(line.split("  # ") for line in capsys.readouterr().out.splitlines())
    assert lines["clients = 7"].endswith("a.toml") and lines["seed = 3"].endswith("b.json")
    assert (lines["privacy.epsilon = 2.0"], lines["rounds.cohort = 2"]) == ("environment", "command line")
    assert lines["rounds.total = 1"] == "goes with the model or the strategy"
