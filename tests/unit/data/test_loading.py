from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import pytest

from fedlearn.core.errors import DataNotFound, SettingError, UsageError
from fedlearn.data import DATASETS, digits, load_dataset
from fedlearn.data.data_folder import check_download


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


@pytest.mark.parametrize(
    ("name", "where"),
    [("cifar10", "urllib.request.urlopen"), ("california", "sklearn.datasets.fetch_california_housing")],
)
def test_offline_asks_no_network(name, where, tmp_path, monkeypatch):
    monkeypatch.setattr(where, lambda *_, **__: pytest.fail("it asked the network"))
    with pytest.raises(DataNotFound, match="not tried: only a run may download"):
        load_dataset(name, str(tmp_path), offline=True)


def test_offline_reads_what_is_here(data_dir):
    assert load_dataset("auto", str(data_dir), offline=True).name == "cifar10"


def test_offline_is_of_one_thread_alone(tmp_path, monkeypatch):
    allowed = []
    monkeypatch.setattr("fedlearn.data.digits.load", lambda _: allowed.append(asked_elsewhere()) or loaded)
    loaded = load_dataset("diabetes", "")

    def asked_elsewhere():
        with ThreadPoolExecutor(1) as other:
            return other.submit(check_download).exception()

    load_dataset("digits", "", offline=True)
    assert allowed == [None]
    check_download()  # and over when the data are loaded


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
    with pytest.raises(UsageError, match="3 cannot be read as data"):
        load_dataset("plugin_of_the_user:wrong", "")
