from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from fedlearn.cache import trusted as files
from fedlearn.core.errors import UsageError
from fedlearn.data import cache as module
from fedlearn.data import entries
from fedlearn.data.cache import cached
from fedlearn.data.staging import ASIDES, aside

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


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """Have a home folder of the test's; return the cache there that only its user writes to."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    files.say_once.cache_clear()
    module._in_memory.clear()
    return tmp_path / "home" / "fedlearn" / "own"


def spoiled(entry):
    """Have an entry hold other numbers, with checksums that are right."""
    (array,) = entry.glob("a.npy")
    stat = array.stat()
    folder = entry.with_name("spoiled")
    folder.mkdir()
    entries.write(folder, "key", {**ARRAYS, "a": ARRAYS["a"] + 1})
    for file in folder.iterdir():
        file.replace(entry / file.name)
    folder.rmdir()
    array.chmod(stat.st_mode)


def of_others(path):
    os.chown(path, 65534, 65534)


def as_link(path):
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


@pytest.mark.parametrize(
    ("how", "is_the_cache"),
    [
        pytest.param(lambda entry: entry.parent.chmod(0o1777), True, id="all may write the cache, as in /tmp"),
        pytest.param(lambda entry: entry.parent.chmod(0o775), True, id="the group may write the cache"),
        pytest.param(lambda entry: of_others(entry.parent), True, id="cache of another user"),
        pytest.param(of_others, False, id="entry of another user"),
        pytest.param(lambda entry: of_others(entry / "a.npy"), False, id="array of another user"),
        pytest.param(lambda entry: of_others(entry / "entry.json"), False, id="description of another user"),
        pytest.param(lambda entry: entry.chmod(0o777), False, id="all may write the entry"),
        pytest.param(lambda entry: (entry / "a.npy").chmod(0o646), False, id="all may write an array"),
        pytest.param(as_link, False, id="the entry is a link"),
        pytest.param(lambda entry: as_link(entry / "a.npy"), False, id="an array is a link"),
    ],
)
def test_what_others_can_have_written_is_made_anew(how, is_the_cache, cache, home, caplog, request):
    """Entries go to the user's own cache where the common one is not safe, and one line says so."""
    if "another user" in request.node.callspec.id and os.geteuid():
        pytest.skip("only root can give files away")
    cached("x", "key", lambda: ARRAYS)
    spoiled(entry := only_entry(cache))
    how(entry)
    again = cached("x", "key", lambda: ARRAYS)
    np.testing.assert_array_equal(again.arrays["a"], ARRAYS["a"])
    assert len(caplog.records) == 1 and str(cache) in caplog.text
    assert home.exists() == is_the_cache
    again = cached("x", "key", refuse)
    np.testing.assert_array_equal(again.arrays["a"], ARRAYS["a"])


def test_where_no_folder_is_ours_it_is_made_in_memory(cache, home, caplog):
    for folder in (cache, home):
        folder.mkdir(parents=True)
        folder.chmod(0o777)
    entry = cached("x", "key", lambda: ARRAYS)
    np.testing.assert_array_equal(entry.arrays["a"], ARRAYS["a"])
    assert not entry.arrays["a"].flags.writeable
    assert cached("x", "key", refuse) is entry
    assert [*cache.iterdir(), *home.iterdir()] == []
    assert caplog.text.count("made in memory") == 1


def test_an_empty_cache_of_anybody_is_as_good_as_any_whatever_the_umask(cache, home):
    before = os.umask(0)
    try:
        cached("x", "key", lambda: ARRAYS)
        cached("x", "key", refuse)
    finally:
        os.umask(before)
    written = [cache, *cache.rglob("*")]
    assert len(written) == 5
    assert not any(path.stat().st_mode & 0o022 for path in written)


TWO_USERS = """
import mmap, os, platformdirs.unix
import numpy as np
from fedlearn.data.cache import cached, checked
os.setgid({user}); os.setuid({user})
with checked():
    print(cached("x", "key", lambda: {{"a": np.arange(4) + {user}}}).arrays["a"][0])
    print(cached("x", "key", None).arrays["a"][0])
"""


@pytest.mark.parametrize("mode", [0o755, 0o1777, 0o777])
@pytest.mark.parametrize("planted", [False, True])
def test_two_users_of_one_folder_have_each_what_they_have_made(mode, planted, cache, home):
    """No user takes a file that another user has made, or fails on folders of the right names."""
    if os.geteuid():
        pytest.skip("only root can be another user")
    cache.mkdir(parents=True)
    home.parent.parent.mkdir()
    of_others(home.parent.parent)
    for above in cache.parents[:3]:
        above.chmod(above.stat().st_mode | 0o055)
    cache.chmod(mode)
    if planted:
        (cache / entries.folder_name("x", "key")).mkdir(mode=0o700)
        os.chown(cache / entries.folder_name("x", "key"), 12345, 12345)
    for user in (65534, 65533):
        done = subprocess.run(
            [sys.executable, "-c", TWO_USERS.format(user=user)], capture_output=True, text=True, check=False
        )
        assert done.stdout == f"{user}\n{user}\n", done.stderr
        assert str(cache) in done.stderr or mode == 0o755


KILLED = """
import os, signal, numpy as np
from fedlearn.data import cache
cache._move_into_place = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
cache.cached("x", "key", lambda: {"a": np.arange(4)})
"""


def test_what_a_killed_writer_has_left_is_removed(cache):
    done = subprocess.run([sys.executable, "-c", KILLED], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [path.name[:5] for path in cache.iterdir()] == [".new-"]
    cached("y", "key", lambda: ARRAYS)
    only_entry(cache)


@pytest.mark.parametrize("kind", ASIDES)
def test_what_a_writer_works_on_stays_and_what_is_left_goes(kind, cache):
    cache.mkdir()
    left = cache / f"{kind}left"
    left.mkdir()
    (left / "a.npy").touch()
    with aside(kind, cache, "x") as mine:
        assert not left.exists()
        cached("x", "key", lambda: ARRAYS)
        assert mine.exists()
    assert not mine.exists()
    only_entry(cache)


def test_without_locks_what_is_older_than_a_day_is_nobodys(cache, no_locks):
    cache.mkdir()
    new, old = cache / ".new-new", cache / ".new-old"
    for each in (new, old):
        each.mkdir()
    os.utime(old, (time.time() - 90_000,) * 2)
    cached("x", "key", lambda: ARRAYS)
    assert new.exists() and not old.exists()
