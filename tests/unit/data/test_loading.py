from __future__ import annotations

import sys
from types import ModuleType

import pytest

from fedlearn.data import DATASETS, digits, load_dataset
from fedlearn.errors import DataNotFound, SettingError, UsageError


def test_auto_takes_cifar10_where_there_is_one(data_dir):
    found = load_dataset("auto", str(data_dir))
    assert found.name == "cifar10"
    assert found.notice == ""


def test_auto_falls_back_to_digits_and_says_so(tmp_path):
    found = load_dataset("auto", str(tmp_path))
    assert found.name == "digits"
    assert "\n" not in found.notice
    for part in ("INSTEAD OF CIFAR-10", "not found", str(tmp_path), "download", "FEDLEARN_DATA"):
        assert part in found.notice


def test_auto_does_not_hide_a_broken_cifar10(data_dir):
    (data_dir / "cifar10" / "test.parquet").write_text("broken")
    with pytest.raises(UsageError, match=r"test\.parquet is not a readable"):
        load_dataset("auto", str(data_dir))


def test_auto_does_not_hide_a_misspelt_folder(tmp_path):
    with pytest.raises(SettingError, match=r"data\.dir"):
        load_dataset("auto", str(tmp_path / "gone"))


def test_cifar10_by_name_never_falls_back(tmp_path):
    with pytest.raises(DataNotFound):
        load_dataset("cifar10", str(tmp_path))


def test_digits_by_name_has_no_notice():
    assert load_dataset("digits", "").notice == ""


def test_unknown_name_lists_the_choices():
    with pytest.raises(SettingError, match="choose one of auto, cifar10, digits"):
        load_dataset("mnist", "")


def test_every_name_in_the_table_is_a_callable():
    for name in DATASETS:
        assert callable(DATASETS.load(name))


def test_reference_to_a_callable_of_the_user_works(monkeypatch):
    plugin = ModuleType("plugin_of_the_user")
    plugin.mine = lambda data_dir: digits.load(data_dir)
    plugin.wrong = lambda data_dir: 3
    monkeypatch.setitem(sys.modules, "plugin_of_the_user", plugin)
    assert load_dataset("plugin_of_the_user:mine", "").name == "digits"
    with pytest.raises(SettingError, match=r"must return a fedlearn\.data\.Dataset or TableDataset, not int"):
        load_dataset("plugin_of_the_user:wrong", "")
