"""Results of accounts are kept, and taken from no file that others can write to."""

from __future__ import annotations

import json

import pytest

from fedlearn.privacy.accounts import kept as module
from fedlearn.privacy.accounts.kept import kept


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLEARN_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "_memory", {})
    return tmp_path / "accounts"


def forget():
    module._memory.clear()


def never():
    raise AssertionError("it is computed again")


def test_a_number_is_computed_once_over_processes(folder):
    assert kept(("a", 1e-6), lambda: 0.1 + 0.2) == 0.1 + 0.2
    forget()
    assert kept(("a", 1e-6), never) == 0.1 + 0.2
    assert kept(("a", 1e-5), lambda: 1.0) == 1.0


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"value": 1}', '{"key": "another", "value": 0.5}', "null"])
def test_what_is_not_the_key_s_is_computed_again(folder, damage):
    kept("a", lambda: 2.0)
    (file,) = folder.iterdir()
    file.write_text(damage)
    forget()
    assert kept("a", lambda: 2.0) == 2.0


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-1", '"x"'])
def test_a_value_that_no_account_has_is_computed_again(folder, value):
    kept("a", lambda: 2.0)
    (file,) = folder.iterdir()
    file.write_text(file.read_text().replace("2.0", value))
    forget()
    assert kept("a", lambda: 2.0) == 2.0


def test_a_smaller_noise_that_another_user_may_have_written_is_not_taken(folder):
    kept("a", lambda: 2.0)
    (file,) = folder.iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), "value": 0.01}))
    file.chmod(0o666)
    forget()
    assert kept("a", lambda: 2.0) == 2.0


def test_a_folder_that_cannot_be_written_to_costs_time_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "cache_folder", lambda: None)
    monkeypatch.setattr(module, "_memory", {})
    assert kept("a", lambda: 2.0) == 2.0
