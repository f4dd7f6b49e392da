"""Functions are compiled, wherever there is or is not a place to keep what was compiled, and only ours are run."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import fedlearn.cache.compiled as module
from fedlearn.cache.compiled import compiled

CODE = """
from fedlearn.cache.compiled import compiled

@compiled()
def twice(x):
    return 2 * x

@compiled()
def thrice(x):
    return 3 * x

print(twice(3), thrice(3))
"""
IMPORTED = """
import sys
import fedlearn.cache.compiled
import fedlearn.kernels.loops
print("scipy.linalg" in sys.modules)
import numba, numpy as np
print(numba.njit(lambda a, b: np.dot(a, b))(np.arange(3.0), np.ones(3)))
print("scipy.linalg" in sys.modules)
"""


@pytest.mark.long
def test_scipy_is_imported_when_a_matrix_is_multiplied_and_not_before():
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "3.0", "True"]


@pytest.mark.long
def test_compiled_anew_where_no_folder_can_be_written_to(tmp_path):
    """So it is in a container of another user, whose home and packages are read-only; that is said once."""
    script = tmp_path / "script.py"
    script.write_text(CODE)
    for locators, lines in (("UserProvidedCacheLocator", 0), ("IPythonCacheLocator", 1)):
        environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_CACHE_LOCATOR_CLASSES": locators}
        done = subprocess.run(
            [sys.executable, str(script)], env=os.environ | environment, capture_output=True, text=True, check=True
        )
        assert done.stdout == "6 9\n"
        assert done.stderr.count("NUMBA_CACHE_DIR") == lines
    assert len(list(tmp_path.rglob("*.nbc"))) == 2


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Have compiled code kept in a folder of the test's, and our cache in another."""
    folder = tmp_path / "numba"
    folder.mkdir(0o755)
    monkeypatch.setattr("numba.config.CACHE_DIR", str(folder))
    monkeypatch.setenv("FEDLEARN_CACHE", str(tmp_path / "cache"))
    module.say_once.cache_clear()
    return folder


def ask():
    """Return a function as a process has it that has just begun."""

    @compiled()
    def twice(x):
        return 2 * x

    return twice


def is_kept():
    twice = ask()
    assert twice(3) == 6
    return bool(twice.stats.cache_hits)


def test_compiled_once_and_kept(place):
    assert [is_kept(), is_kept()] == [False, True]


def test_nobody_else_can_write_what_is_kept_whatever_the_umask(place):
    before = os.umask(0)
    try:
        assert [is_kept(), is_kept()] == [False, True]  # not where numba has made a folder with this umask
    finally:
        os.umask(before)
    (file,) = place.parent.rglob("*.nbc")
    assert not (file.stat().st_mode | file.parent.stat().st_mode) & 0o022


class Planted:
    """What runs a command when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


def plant(file, mark):
    data = pickle.dumps(Planted(mark))
    digest = module._texts(Path(__file__).parent)
    file.write_bytes(module.sha256(digest + data).digest() + data)


def of_others(file):
    os.chown(file, 65534, 65534)


def link(file):
    file.rename(file.with_suffix(".elsewhere"))
    file.symlink_to(file.with_suffix(".elsewhere"))


def folder_is_a_link(file):
    folder = file.parent
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(lambda file: file.chmod(0o664), id="the group may write the file"),
        pytest.param(lambda file: file.chmod(0o646), id="all may write the file"),
        pytest.param(lambda file: file.parent.chmod(0o1777), id="all may write the folder"),
        pytest.param(lambda file: file.parent.parent.chmod(0o775), id="the group may write the folder above"),
        pytest.param(link, id="the file is a link"),
        pytest.param(folder_is_a_link, id="the folder is a link"),
        pytest.param(lambda file: (file.unlink(), os.mkfifo(file)), id="the file is a pipe"),
        pytest.param(of_others, id="file of another user"),
        pytest.param(lambda file: of_others(file.parent), id="folder of another user"),
        pytest.param(lambda file: of_others(file.parent.parent), id="folder above of another user"),
    ],
)
def test_what_others_can_have_written_is_never_run(how, place, caplog, tmp_path, request):
    """It is compiled anew, and said in one line; where the folder is the matter, it is kept in our own."""
    if "another user" in request.node.callspec.id and os.geteuid():
        pytest.skip("only root can give files away")
    assert not is_kept()
    (file,) = place.rglob("*.nbc")
    plant(file, tmp_path / "run")
    how(file)
    assert not is_kept()
    assert not (tmp_path / "run").exists()
    assert len(caplog.records) == 1
    assert str(place) in caplog.text
    assert is_kept()  # what was made anew
    assert not (tmp_path / "run").exists()


def test_what_is_kept_is_run_only_whole_and_of_the_same_texts(place, monkeypatch):
    assert not is_kept()
    (file,) = place.rglob("*.nbc")
    whole = file.read_bytes()
    for damaged in (whole[:-100], whole[:-20] + bytes(20), b"", bytes(40)):
        file.write_bytes(damaged)
        assert [is_kept(), is_kept()] == [False, True]
    monkeypatch.setattr(module, "_texts", lambda _: b"another")
    assert not is_kept()


def test_a_change_of_any_text_of_the_folder_or_setting_of_numbas_is_noticed(tmp_path, monkeypatch):
    (tmp_path / "one.py").write_text("1")
    (tmp_path / "other.py").write_text("2")
    hashes = [module._texts(tmp_path)]
    for change in (
        lambda: (tmp_path / "other.py").write_text("3"),
        lambda: (tmp_path / "third.py").touch(),
        lambda: monkeypatch.setenv("NUMBA_OPT", "0"),
        lambda: monkeypatch.setattr("numba.__version__", "0"),
    ):
        assert module._texts(tmp_path) == hashes[-1]
        change()
        module._texts.cache_clear()
        hashes.append(module._texts(tmp_path))
    assert len(set(hashes)) == 5


def test_a_full_disk_costs_what_was_to_be_kept(place, monkeypatch, caplog):
    def full(*_, **__):
        raise OSError(28, "No space left on device", str(place))

    monkeypatch.setattr(Path, "replace", full)
    assert not is_kept()
    assert "No space left" in caplog.text
    assert not list(place.rglob("*.nbc*"))
