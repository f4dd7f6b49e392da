"""Files that are only appended to: their length and SHA-256, kept from commit to commit."""

from __future__ import annotations

import os
from hashlib import sha256

import pytest

from fedlearn.core.errors import UsageError
from fedlearn.runs.appended import APPENDED, MOST_BEHIND, Appended, Written
from fedlearn.runs.file_names import EVENTS, NODES


def written(data):
    return Written(len(data), sha256(data).hexdigest())


def test_the_log_and_the_table_of_nodes_are_meant():
    assert {*APPENDED} == {EVENTS, NODES}


def test_what_is_read_is_the_length_and_the_sha256_of_the_whole_file(tmp_path):
    path = tmp_path / "x"
    appended = Appended(path)
    assert appended.read_on() is None
    path.write_bytes(b"one\n")
    assert appended.read_on() == written(b"one\n") == appended.read_on()
    with path.open("ab") as file:
        file.write(b"two\n")
    assert appended.read_on() == written(b"one\ntwo\n")


def test_what_was_read_is_not_read_again(tmp_path):
    path = tmp_path / "x"
    appended = Appended(path)
    path.write_bytes(b"one\n")
    appended.read_on()
    with path.open("r+b") as file:
        file.write(b"two\nthree\n")
    assert appended.read_on() == written(b"one\nthree\n")


def test_a_file_that_was_put_in_its_place_is_read_from_its_beginning(tmp_path):
    path = tmp_path / "x"
    appended = Appended(path)
    path.write_bytes(b"one\n")
    appended.read_on()
    (tmp_path / "y").write_bytes(b"two\nthree\n")
    (tmp_path / "y").replace(path)
    assert appended.read_on() == written(b"two\nthree\n")


def test_what_lies_behind_what_was_stored_changes_nothing(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"one\ntwo\n")
    appended = Appended(path)
    assert appended.begins_with(written(b"one\n"))
    assert appended.read_on() == written(b"one\ntwo\n")


@pytest.mark.parametrize("found", [b"oNe\ntwo\n", b"on", b"", None])
def test_what_is_not_what_was_stored_is_read_from_its_beginning(tmp_path, found):
    path = tmp_path / "x"
    if found is not None:
        path.write_bytes(found)
    appended = Appended(path)
    assert not appended.begins_with(written(b"one\n"))
    assert appended.read_on() == (None if found is None else written(found))


@pytest.mark.parametrize("stored", [None, written(b"one\n")])
def test_a_file_without_an_end_is_named_and_not_read(tmp_path, stored):
    path = tmp_path / "x"
    path.touch()
    os.truncate(path, MOST_BEHIND + 5)
    with pytest.raises(UsageError, match=r"x: it has \d+ bytes, far more than this run has written: move it away"):
        Appended(path).check_size(stored)


def test_what_a_commit_names_is_synced_before(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_bytes(b"one\n")
    synced = []
    monkeypatch.setattr(
        "fedlearn.runs.appended.os.fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino)
    )
    assert Appended(path).synced() == written(b"one\n")
    assert synced == [path.stat().st_ino]
    assert Appended(tmp_path / "none").synced() is None
