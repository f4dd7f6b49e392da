"""Every flag of the table reaches its setting, through the command as it is called."""

import re

import pytest

from fedlearn.cli import main
from fedlearn.commands import simulate
from fedlearn.config import RunConfig, to_flower
from fedlearn.config.names import flags

FLAGS = flags()

VALUES = {
    "clients": 7, "rounds.total": 3, "rounds.cohort": 4, "seed": 9, "data.dataset": "digits", "data.dir": "/data",
    "data.partition": "shard", "model.name": "cnn-large", "training.local_epochs": 2, "training.batch_size": 11,
    "privacy.epsilon": 0.5, "privacy.protects": "nodes", "privacy.delta": 1e-6,
    "training.lr": 0.25, "compression.codec": "drop", "compression.keep_ratio": 0.3,
    "compression.send": "update", "strategy.name": "median", "engine.name": "inline", "engine.workers": 2,
    "devices.name": "phones", "stop.target": "0.9", "stop.patience": 3, "training.baseline": "local",
    "data.validation_share": "0.5",
    "model.initial": "/another/run", "evaluation.beside": '["alone"]', "secure.sums": "unmasked",
    "attack.name": "zero", "attack.attackers": 0.4, "stop.time_limit": "50m", "out": "/a/run",
}  # fmt: skip

IMPLIED = {
    "privacy.protects": {"strategy.weighting": "uniform", "compression.send": "update", "privacy.trust": "central"},
    "evaluation.beside": {"evaluation.nodes": RunConfig().clients, "data.node_test_share": 0.2},
}  # by a flag's value


@pytest.fixture
def settings_of(monkeypatch):
    """Return the settings of a command line of `simulate`, without a run."""
    seen = []
    monkeypatch.setattr(simulate, "_run", lambda settings, **_: seen.append(settings))

    def settings_of(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["simulate", *arguments])
        assert end.value.code == 0
        return to_flower(seen.pop())

    return settings_of


def test_table_of_values_has_every_flag_of_the_command():
    assert set(VALUES) == set(FLAGS)


@pytest.mark.parametrize("setting", FLAGS)
def test_flag_reaches_its_setting_and_no_other(setting, settings_of):
    value = VALUES[setting]
    assert value != to_flower(RunConfig())[setting], "a default cannot show that it arrives"
    private = ["--model", "dp-forest"] if setting in ("privacy.epsilon", "privacy.delta") else []
    without, given = (
        settings_of("--out", "/other", *private, *more) for more in ((), (FLAGS[setting].name, str(value)))
    )
    assert given == {**without, setting: value, **IMPLIED.get(setting, {})}


def test_flags_have_names_of_their_own():
    assert len({flag.name for flag in FLAGS.values()}) == len(FLAGS)


def test_help_lists_every_flag_with_the_default_of_its_setting(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "900")
    with pytest.raises(SystemExit):
        main(["simulate", "--help-all"])
    lines = capsys.readouterr().out.splitlines()
    defaults = to_flower(RunConfig())
    for setting, flag in FLAGS.items():
        (line,) = [line for line in lines if re.match(rf"\W*{flag.name} ", line)]
        assert flag.metavar in line
        assert defaults[setting] == "" or f"[default: {defaults[setting]}]" in line


def test_set_wins_over_a_flag(settings_of):
    assert settings_of("--out", "/other", "--clients", "5", "--set", "clients=6")["clients"] == 6
