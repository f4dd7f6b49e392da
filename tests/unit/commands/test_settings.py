"""`fedlearn settings`: all of them as a file, or one with all that is known of it."""

from __future__ import annotations

import tomllib

import pytest

from fedlearn.cli import main
from fedlearn.config import RunConfig, config_from, to_flower
from fedlearn.config.names import setting_names
from fedlearn.plugins.tables import STRATEGIES
from fedlearn.sweeps.sweep_plan import flat_from


@pytest.fixture
def said(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")

    def said(*arguments, code=0):
        with pytest.raises(SystemExit) as end:
            main(["settings", *arguments])
        assert end.value.code == code
        out = capsys.readouterr()
        return out.err if code else out.out

    return said


def test_the_list_is_a_file_of_all_defaults(said):
    assert config_from(flat_from(tomllib.loads(said()))) == RunConfig()


def test_a_table_is_listed_alone(said):
    assert set(flat_from(tomllib.loads(said("gate")))) == {
        name for name in to_flower(RunConfig()) if name[:5] == "gate."
    }


@pytest.mark.parametrize("key", ["training.lr", "lr"])
def test_one_setting_tells_its_meaning_default_range_and_flag(said, key):
    text = said(key)
    assert text.startswith("training.lr\n  Learning rate of the first round.\n")
    for line in ("default  0.05", "allowed  a number above 0", "flag     --lr X", "--set training.lr=VALUE"):
        assert line in text


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        ("clients", "a whole number from 1 to 10,000,000"),
        ("training.momentum", "a number of at least 0 and below 1"),
        ("data.augment", "true, false or module:name"),
        ("privacy.noise", "auto or seeded or secure"),
        ("strategy.name", f"{', '.join(STRATEGIES)}; or module:name"),
    ],
)
def test_what_is_allowed_is_said(said, key, allowed):
    assert allowed in " ".join(said(key).split())


@pytest.mark.long
def test_every_setting_can_be_asked_for(said):
    for name in setting_names():
        assert said(name).startswith(f"{name}\n")


def test_a_near_miss_is_told_what_was_meant(said):
    assert (
        said("learning_rate", code=2) == "error: learning_rate: there is no such setting; did you mean training.lr?\n"
    )
    assert "fedlearn settings lists them" in said("zzz", code=2)


@pytest.mark.parametrize("columns", ["20", "60"])
def test_no_line_is_wider_than_a_narrow_terminal(said, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    assert max(map(len, said("data.partition").splitlines())) <= max(int(columns), 40)
