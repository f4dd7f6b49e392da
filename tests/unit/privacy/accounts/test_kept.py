"""Results of accounts are kept, and taken from no file that others can write to."""

from __future__ import annotations

from hashlib import sha256

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


@pytest.mark.parametrize("damage", ["", "\n", "2.0", "1 another key\n0.5"])
def test_what_is_not_the_key_s_is_computed_again(folder, damage):
    kept("a", lambda: 2.0)
    (file,) = folder.iterdir()
    file.write_text(damage)
    forget()
    assert kept("a", lambda: 2.0) == 2.0


def changed(file, value):
    """Write another value into a file, with a checksum that fits."""
    words = file.read_bytes().partition(b"\n")[0].rpartition(b" ")[0]
    file.write_bytes(words + b" " + sha256(value).hexdigest().encode() + b"\n" + value)


@pytest.mark.parametrize("value", [b"nan", b"inf", b"-1", b"x", b""])
def test_a_value_that_no_account_has_is_computed_again(folder, value):
    kept("a", lambda: 2.0)
    (file,) = folder.iterdir()
    changed(file, value)
    forget()
    assert kept("a", lambda: 2.0) == 2.0


def test_a_value_that_was_cut_off_is_computed_again(folder):
    kept("a", lambda: 2.25)
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    forget()
    assert kept("a", lambda: 2.25) == 2.25


def test_a_smaller_noise_that_another_user_may_have_written_is_not_taken(folder):
    kept("a", lambda: 2.0)
    (file,) = folder.iterdir()
    changed(file, b"0.01")
    forget()
    assert kept("a", never) == 0.01, "it would be taken"
    file.chmod(0o666)
    forget()
    assert kept("a", lambda: 2.0) == 2.0


def test_a_folder_that_cannot_be_written_to_costs_time_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "cache_folder", lambda: None)
    monkeypatch.setattr(module, "_memory", {})
    assert kept("a", lambda: 2.0) == 2.0
