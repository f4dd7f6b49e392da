from __future__ import annotations

import threading

import numpy as np
import pytest

from fedlearn.data.cache import cached
from fedlearn.errors import UsageError

ARRAYS = {"a": np.arange(12, dtype=np.int32).reshape(3, 4), "b": np.zeros(0, np.int64)}


def refuse():
    raise AssertionError("made again")


def only_entry(cache):
    (folder,) = cache.iterdir()
    return folder


def test_entry_is_made_once_and_mapped_read_only(cache):
    first = cached("x", "key", lambda: ARRAYS)
    again = cached("x", "key", refuse)
    assert again.content == first.content
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(again.arrays[name], array)
        assert again.arrays[name].dtype == array.dtype
        assert not again.arrays[name].flags.writeable
    assert isinstance(again.arrays["a"].base, np.memmap)


def test_another_key_is_another_entry():
    cached("x", "key", lambda: ARRAYS)
    other = cached("x", "other", lambda: {"a": np.ones(2)})
    np.testing.assert_array_equal(other.arrays["a"], np.ones(2))


def test_content_depends_on_values_names_and_shapes_only():
    content = cached("x", "1", lambda: {"a": np.arange(4)}).content
    assert cached("y", "2", lambda: {"a": np.arange(4)}).content == content
    assert cached("x", "3", lambda: {"b": np.arange(4)}).content != content
    assert cached("x", "4", lambda: {"a": np.arange(4).reshape(2, 2)}).content != content
    assert cached("x", "5", lambda: {"a": np.arange(4)[::-1]}).content != content


def wrong_shape(entry):
    np.save(entry / "a.npy", np.zeros((2, 4), np.int32))


def wrong_dtype(entry):
    np.save(entry / "a.npy", np.zeros((3, 4), np.float32))


def truncated(entry):
    data = (entry / "a.npy").read_bytes()
    (entry / "a.npy").write_bytes(data[:-5])


def emptied(entry):
    (entry / "a.npy").write_bytes(b"")


def array_gone(entry):
    (entry / "b.npy").unlink()


def description_gone(entry):
    (entry / "entry.json").unlink()


def description_cut(entry):
    (entry / "entry.json").write_text('{"key": "key", ')


def description_of_another_kind(entry):
    (entry / "entry.json").write_text("[1]")


@pytest.mark.parametrize(
    "damage",
    [
        wrong_shape,
        wrong_dtype,
        truncated,
        emptied,
        array_gone,
        description_gone,
        description_cut,
        description_of_another_kind,
    ],
)
def test_damaged_entry_is_made_again(cache, damage):
    cached("x", "key", lambda: ARRAYS)
    damage(only_entry(cache))
    again = cached("x", "key", lambda: ARRAYS)
    np.testing.assert_array_equal(again.arrays["a"], ARRAYS["a"])
    cached("x", "key", refuse)
    only_entry(cache)  # and nothing is left beside it


def test_file_where_the_entry_should_be_is_replaced(cache):
    cached("x", "key", lambda: ARRAYS)
    entry = only_entry(cache)
    entry.rename(cache / "aside")
    entry.write_text("not a folder")
    cached("x", "key", lambda: ARRAYS)
    cached("x", "key", refuse)


@pytest.mark.parametrize("damaged_before", [False, True])
def test_racing_writers_all_get_a_whole_entry(cache, damaged_before):
    if damaged_before:
        cached("x", "key", lambda: ARRAYS)
        truncated(only_entry(cache))
    writers = 8
    together = threading.Barrier(writers)
    found = []

    def make():
        together.wait()  # all have seen that there is no entry
        return ARRAYS

    def work():
        found.append(cached("x", "key", make).arrays["a"].sum())

    threads = [threading.Thread(target=work) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [ARRAYS["a"].sum()] * writers
    only_entry(cache)


def test_failed_make_leaves_no_entry(cache):
    with pytest.raises(ZeroDivisionError):
        cached("x", "key", lambda: {"a": np.array(1 // 0)})
    assert list(cache.iterdir()) == []


def test_cache_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FEDLEARN_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"cannot write to the cache folder .*file.*FEDLEARN_CACHE"):
        cached("x", "key", lambda: ARRAYS)
