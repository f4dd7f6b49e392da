from __future__ import annotations

import subprocess
import sys

import pytest

from fedlearn.config import RunConfig, config_from
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.runs.environment import environment, gpus_in
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.settings_of_resume import kept_settings


def test_settings_are_read_back_as_they_were_written(tmp_path):
    config = config_from({"training.lr": 0.123, "data.notice": 'a\nb "c"', "data.augment": True, "seed": 2**62})
    RunFolder(tmp_path).write_settings(config)
    assert config_from(RunFolder(tmp_path).read_settings()) == config


@pytest.mark.parametrize(
    "setting",
    [
        {"seed": 2},
        {"clients": 7},
        {"training.lr": 0.2},
        {"rounds.cohort": 3},
        {"compression.codec": "drop"},
        {"data.dataset": "digits"},
        {"strategy.name": "median"},
        {"gate.max_norm": 9.0},
        {"engine.device": "cuda"},
    ],
)
def test_setting_that_changes_the_bytes_must_stay_as_it_was(tmp_path, setting):
    folder = RunFolder(tmp_path)
    folder.write_settings(RunConfig())
    (name,) = setting
    with pytest.raises(SettingError, match=rf"^{name} = .*began with"):
        folder.check_settings(config_from(setting))


@pytest.mark.parametrize(
    "setting",
    [
        {"engine.workers": 7},
        {"engine.name": "inline"},
        {"rounds.total": 99},
        {"rounds.store_every": 5},
        {"data.dir": "/elsewhere"},
        {"out": "moved"},
        {"evaluation.every": 5},
    ],
)
def test_setting_that_leaves_the_bytes_alone_may_change(tmp_path, setting):
    folder = RunFolder(tmp_path)
    folder.write_settings(RunConfig())
    folder.check_settings(config_from(setting))


def test_run_goes_on_with_another_device_of_the_kind_that_it_was_begun_on(tmp_path):
    folder = RunFolder(tmp_path)
    folder.write_settings(config_from({"engine.device": "cuda"}))
    folder.check_settings(config_from({"engine.device": "cuda:1"}))
    assert kept_settings(config_from({"engine.device": "cuda:1"}))["engine.device"] == "cuda"
    with pytest.raises(SettingError, match=r"^engine\.device = 'cpu': the run in .* began with 'cuda'"):
        folder.check_settings(RunConfig())


def test_folder_without_settings_is_no_run(tmp_path):
    with pytest.raises(UsageError, match=r"settings\.toml is missing"):
        RunFolder(tmp_path).read_settings()


LOCKING = (
    "import sys, pathlib; from fedlearn.runs.folder import RunFolder\n"
    "with RunFolder(pathlib.Path(sys.argv[1])).locked(): pass"
)


def test_second_process_is_kept_out_while_the_first_one_runs(tmp_path):
    command = [sys.executable, "-c", LOCKING, str(tmp_path)]
    with RunFolder(tmp_path).locked():
        kept_out = subprocess.run(command, capture_output=True, text=True, check=False)
        with pytest.raises(UsageError, match="another process"), RunFolder(tmp_path).locked():
            pass
    assert "UsageError" in kept_out.stderr
    assert str(tmp_path) in kept_out.stderr
    with RunFolder(tmp_path).locked():  # free again
        pass


def test_lock_is_given_back_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), RunFolder(tmp_path).locked():
        1 / 0  # noqa: B018
    with RunFolder(tmp_path).locked():
        pass


def test_environment_names_versions():
    assert environment()["packages"]["flwr"].startswith("1.")


def test_environment_names_the_gpus_of_which_a_driver_tells(tmp_path):
    for place, model in (("0000:65:00.0", "NVIDIA H200"), ("0000:b3:00.0", "NVIDIA A2")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 16\n")
    assert gpus_in(tmp_path) == ["NVIDIA H200", "NVIDIA A2"]
    assert gpus_in(tmp_path / "no driver") == []


def test_folder_on_a_disk_without_locks_is_used_and_a_line_says_what_to_mind(tmp_path, no_locks, caplog):
    for _ in range(2):
        with RunFolder(tmp_path / "run").locked():
            pass
    assert caplog.text.count("its disk knows no locks: start no second process in this folder") == 1
