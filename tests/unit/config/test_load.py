from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.config import RunConfig, config_from, flat_from_assignments, flat_from_file, from_flower, to_flower
from fedlearn.config.names import described, setting_names
from fedlearn.core.errors import SettingError, UsageError

BAD = {
    "clients": [0, -1, 10_000_001, "many", 2.5],
    "seed": [-1, 2**63, "x"],
    "rounds.total": [0, "x"],
    "rounds.cohort": [-1],
    "rounds.selection_window": [0, -1, float("inf"), float("nan")],
    "rounds.reporting_deadline": [0, 1e12],
    "rounds.quorum": [0, 1.1, float("nan")],
    "rounds.minimum_ready": [0.0, 2],
    "rounds.max_attempts": [0],
    "rounds.backoff": [-1, float("inf")],
    "data.partition": [3],
    "data.alpha": [0, float("inf"), float("nan")],
    "data.augment": ["perhaps"],
    "training.lr": [0, -0.1, float("nan"), float("inf"), "fast"],
    "training.momentum": [1.0, -0.1],
    "training.batch_size": [0],
    "compression.keep_ratio": [0, 1.5, float("nan")],
    "compression.granularity": ["row"],
    "compression.send": ["gradient"],
    "strategy.weighting": ["size"],
    "strategy.options": ["{", "3", "[]", 3, '{"a": NaN}'],
    "gate.max_examples": [0],
    "evaluation.where": ["here"],
    "evaluation.every": [0],
    "engine.workers": [-1, 5000],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_value_out_of_range_is_refused_in_one_line_naming_setting_and_value(name, value):
    with pytest.raises(SettingError) as error:
        config_from({name: value})
    assert str(error.value).startswith(f"{name} = {value!r}: ")
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("training.learning_rate", None),
        ("training.batchsize", "training.batch_size"),
        ("trainig.lr", "training.lr"),
        ("lr", None),
        ("compression.keep-ratio", "compression.keep_ratio"),
        ("cliens", "clients"),
    ],
)
def test_unknown_name_is_refused_with_the_one_that_was_meant(typed, meant):
    with pytest.raises(SettingError, match="there is no such setting") as error:
        config_from({typed: 1})
    assert str(error.value).startswith(typed.split(".")[0])
    if meant:
        assert f"did you mean {meant}?" in str(error.value)


@pytest.mark.parametrize(
    ("old", "part", "new"),
    [
        ("strategy.trim", "strategy", "write strategy.options.trim"),
        ("strategy.decoder", "strategy", "write strategy.options.decoder"),
        ("strategy.server_momentum", "strategy", "strategy.options.beta1 for fedadam"),
        ("engine.address", "engine", "write engine.options.address"),
        ("engine.client_gpus", "engine", "write engine.options.client_gpus"),
    ],
)
def test_a_setting_that_became_an_option_names_the_option(old, part, new):
    with pytest.raises(SettingError, match=f"it is an option of its {part} now") as error:
        config_from({old: 0.2})
    assert new in str(error.value)


TRIM = {"strategy.name": "trimmed-mean", "strategy.options": '{"trim": 0.2}'}


@pytest.mark.parametrize(
    "written",
    [
        {"strategy.options": '{"trim":0.2}'},
        {"strategy.options": {"trim": 0.2}},
        {"strategy.options.trim": 0.2},
        {"strategy.options": {"trim": 0.4}, "strategy.options.trim": 0.2},
        {"strategy.options.trim": 0.2, "strategy.options": '{"trim": 0.4}'},
    ],
)
def test_options_are_stored_alike_however_they_are_written(written):
    assert config_from({"strategy.name": "trimmed-mean", **written}) == config_from(TRIM)
    assert from_flower(to_flower(config_from(TRIM))) == config_from(TRIM)


def test_options_of_a_file_are_a_table_to_which_the_command_line_adds(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text('strategy.name = "fedadam"\n[strategy.options]\ntau = 0.1\nbeta1 = 0.5\n', encoding="utf-8")
    flat = {**flat_from_file(path), **flat_from_assignments(["strategy.options.beta1=0.25"])}
    assert config_from(flat).strategy.options == '{"beta1": 0.25, "tau": 0.1}'


@pytest.mark.parametrize("flat", [{"training": 3}, {"training": 3, "training.lr": 0.1}, {"training.lr.x": 1}])
def test_table_and_value_are_not_confused(flat):
    with pytest.raises(SettingError) as error:
        config_from(flat)
    assert "training" in str(error.value)
    assert "\n" not in str(error.value)


def test_error_names_the_file_it_came_from():
    with pytest.raises(SettingError, match=r"in runs/a\.toml"):
        config_from({"training.lr": -1}, source="runs/a.toml")


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"training.lr = ", "not valid TOML"), (b"\xff\xfe", "not valid TOML"), (None, "No such file")],
)
def test_unreadable_file_is_named(tmp_path, content, said):
    path = tmp_path / "x.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=said) as error:
        flat_from_file(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_folder_in_place_of_a_file_is_an_error(tmp_path):
    with pytest.raises(UsageError, match=str(tmp_path)):
        flat_from_file(tmp_path)


def test_file_may_use_tables_or_dotted_names(tmp_path: Path):
    path = tmp_path / "x.toml"
    path.write_text("clients = 5\nrounds.total = 3\n[training]\nlr = 0.5\n", encoding="utf-8")
    config = config_from(flat_from_file(path))
    assert (config.clients, config.rounds.total, config.training.lr) == (5, 3, 0.5)


def test_assignments_are_toml_values_and_bare_words():
    flat = flat_from_assignments(["a=1", " b = 0.5 ", "c=true", "d=cnn", 'e="x=y"', "f=", "g=module:Class"])
    assert flat == {"a": 1, "b": 0.5, "c": True, "d": "cnn", "e": "x=y", "f": "", "g": "module:Class"}


@pytest.mark.parametrize("text", ["training.lr", "=1", " =1", ""])
def test_assignment_without_name_or_value_is_refused(text):
    with pytest.raises(UsageError, match="key=value"):
        flat_from_assignments([text])


def test_settings_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        RunConfig().clients = 3


def test_setting_names_are_those_of_the_flat_table():
    assert setting_names() == list(to_flower(RunConfig()))


def test_every_setting_is_of_a_type_that_flower_carries_and_is_described():
    for name, value in to_flower(RunConfig()).items():
        assert type(value) in {bool, int, float, str}, name
        assert described(name)[0], name


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "clients": st.integers(1, 10**6),
            "seed": st.integers(0, 2**63 - 1),
            "training.lr": st.floats(1e-9, 1e9),
            "rounds.quorum": st.floats(0.001, 1),
            "data.notice": st.text(max_size=20),
            "data.augment": st.booleans(),
            "compression.send": st.sampled_from(["weights", "update"]),
        },
    )
)
def test_flowers_flat_table_and_back(flat):
    config = config_from(flat)
    assert from_flower(to_flower(config)) == config


def test_settings_of_one_run_are_the_same_object_from_message_to_message():
    flat = to_flower(RunConfig(clients=4))
    assert from_flower(dict(flat)) is from_flower(dict(flat))
    assert from_flower(flat | {"clients": 5}).clients == 5


@pytest.mark.parametrize(("clients", "cohort", "goal"), [(10, 4, 4), (10, 0, 10), (3, 20, 3)])
def test_goal_count_is_never_more_than_there_are_nodes(clients, cohort, goal):
    assert config_from({"clients": clients, "rounds.cohort": cohort}).goal_count == goal


@pytest.mark.parametrize("setting", ["privacy.epsilon", "clients", "training.lr", "rounds.cohort"])
def test_true_is_no_number(setting):
    with pytest.raises(SettingError, match=rf"{setting} = True: it is no switch"):
        config_from({setting: True})
