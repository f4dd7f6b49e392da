"""Settings without effect are named; used ones are not."""

from __future__ import annotations

import pytest

from fedlearn.commands.shared import run_settings
from fedlearn.commands.unused_settings import unread
from fedlearn.config import RunConfig
from fedlearn.config.marks import ReadBy, ReadIf
from fedlearn.config.names import marks, names_of, setting_names
from fedlearn.core.errors import SettingError
from fedlearn.models.presets import settings_from


def lines(**given):
    flat = {name.replace("__", "."): value for name, value in given.items()}
    return list(unread(flat, settings_from(flat)))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"clients": 4, "rounds__cohort": 50}, "rounds.cohort = 50 is more than there are: all 4 clients take part"),
        ({"compression__keep_ratio": 0.5}, "compression.keep_ratio = 0.5 has no effect: it is for a codec that drops"),
        ({"compression__keep_ratio": 0.5, "compression__codec": "drop:0.1"}, "names no share itself"),
        ({"data__alpha": 0.1}, "it is for data.partition = 'dirichlet'"),
        ({"privacy__epsilon": 2.0}, "it is for a private model"),
        ({"training__lr": 0.1, "model__name": "dp-forest"}, "it is for a model of torch"),
        ({"training__momentum": 0.5, "training__optimizer": "adamw"}, "it is for training.optimizer = 'sgd'"),
        ({"engine__workers": 2, "engine__name": "inline"}, "it is for engine.name = 'embedded' or 'ray'"),
        ({"data__dir": "nowhere", "data__dataset": "digits"}, "data.dir = 'nowhere' has no effect: it is for"),
        ({"stop__metric": "acuracy"}, "it is for an early stop, by stop.target or stop.patience"),
    ],
)
def test_what_has_no_effect_is_one_line(given, said):
    (line,) = lines(**given)
    assert said in line


@pytest.mark.parametrize("given", [{"epsilon": 1.0}, {"delta": 1e-6}, {"clip": 0.5}, {"trust": "distributed"}], ids=str)
def test_a_setting_of_privacy_that_protects_nobody_is_refused(given, tmp_path):
    flat = {f"privacy.{name}": value for name, value in given.items()}
    with pytest.raises(SettingError, match=r"it protects nobody.*--private records"):
        run_settings({**flat, "out": str(tmp_path)}, [], None)
    (tmp_path / "settings.toml").write_text("".join(f"{name} = {value!r}\n" for name, value in flat.items()))
    if flat == {"privacy.epsilon": RunConfig().privacy.epsilon}:  # a file may hold all settings
        run_settings({"out": str(tmp_path / "run")}, [tmp_path / "settings.toml"], None)
        return
    with pytest.raises(SettingError, match=f"privacy.{next(iter(given))} = .* it protects nobody"):
        run_settings({"out": str(tmp_path / "run")}, [tmp_path / "settings.toml"], None)
    for private in ({"model.name": "dp-forest"}, {"model.name": "my.lab:Model"}, {"training.learner": "my.lab:DP"}):
        run_settings({**flat, **private, "out": str(tmp_path)}, [], None)


@pytest.mark.parametrize(
    "given",
    [
        {"clients": 4},  # the default cohort of 20 was not asked for
        {"clients": 4, "rounds__cohort": 4},
        {"compression__keep_ratio": 0.5, "compression__codec": "drop"},
        {"compression__keep_ratio": 0.5, "compression__codec": "residual,top-k", "compression__send": "update"},
        {"compression__keep_ratio": 0.5, "compression__codec": "my.lab:Codec"},
        {"privacy__epsilon": 2.0, "model__name": "dp-forest"},
        {"privacy__epsilon": 2.0, "training__learner": "my.lab:PrivateSGD"},
        {"stop__metric": "loss", "stop__patience": 2},
        {"training__lr": 0.1, "training__lr_decay": 0.0, "training__momentum": 0.0},
        {"data__dir": "here", "data__dataset": "houses.csv"},
    ],
)
def test_what_is_used_is_not_said(given):
    assert lines(**given) == []


def test_reader_of_a_setting_names_values_that_the_other_setting_takes():
    readers = [reader for name in setting_names() for reader in marks(name, ReadIf)]
    assert readers
    for reader in readers:
        assert set(reader.values) <= set(names_of(reader.setting))


@pytest.mark.parametrize("kind", ReadBy)
def test_every_kind_of_reader_reads_a_setting(kind):
    assert any(kind in marks(name, ReadBy) for name in setting_names())
