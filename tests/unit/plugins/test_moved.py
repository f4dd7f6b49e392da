"""A module that has moved is found by its former name: one module, one warning, in imports, settings and pickles."""

from __future__ import annotations

import pickle
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec

import pytest

from fedlearn.plugins import moved
from fedlearn.plugins.own_packages import FIRST
from fedlearn.plugins.registry import load_reference

MOVED = {
    "fedlearn.former": "fedlearn.config",
    "fedlearn.former.marks": "fedlearn.config.names",
    "client.former": "client.memory",
    "server.former": "server.selectors",
}


@pytest.fixture(autouse=True)
def table(monkeypatch):
    """Have modules that seem to have moved; forget them afterwards."""
    monkeypatch.setattr(moved, "MOVED", MOVED)
    monkeypatch.setattr(moved, "_told", set())
    yield
    for name in [name for name in sys.modules if ".former" in name]:
        parent, _, last = name.rpartition(".")
        del sys.modules[name]
        vars(sys.modules.get(parent, moved)).pop(last, None)


@pytest.mark.parametrize(
    ("former", "today"),
    [
        ("fedlearn.former", "fedlearn.config"),
        ("fedlearn.former.tables.data", "fedlearn.config.tables.data"),
        ("fedlearn.former.marks", "fedlearn.config.names"),
        ("client.former", "client.memory"),
        ("fedlearn.client.former", "client.memory"),
        ("fedlearn.server.former.selector", "server.selectors.selector"),
    ],
)
def test_both_names_are_one_module_and_one_warning_says_so(former, today):
    with pytest.warns(DeprecationWarning, match=r"is now .*; plugins import from fedlearn\.extend") as told:
        module = import_module(former)
    lines = {moved._line_of(former), moved._line_of(former.rpartition(".")[0])} - {""}
    assert len(told) == len(lines)
    assert module is import_module(today)
    assert module.__name__ == module.__spec__.name == today
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert import_module(former) is module


def test_a_package_that_moved_warns_once_for_all_that_is_in_it():
    with pytest.warns(DeprecationWarning) as told:
        import_module("fedlearn.former.tables.data")
        import_module("fedlearn.former.fields")
    assert [str(each.message).partition(";")[0] for each in told] == ["fedlearn.former is now fedlearn.config"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_stored_name_and_a_pickle_load():
    today = load_reference("client.memory:NodeMemory")
    assert load_reference("client.former:NodeMemory") is load_reference("fedlearn.client.former:NodeMemory") is today
    named = pickle.dumps(today, protocol=0)
    assert pickle.loads(named.replace(b"client.memory", b"client.former")) is today


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_nowhere_is_found_nowhere():
    assert find_spec("fedlearn.former.nothing") is None
    with pytest.raises(ModuleNotFoundError, match=r"fedlearn\.former\.nothing"):
        import_module("fedlearn.former.nothing")


def test_a_users_own_package_of_a_name_of_ours_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "client").mkdir()
    (tmp_path / "client" / "__init__.py").touch()
    (tmp_path / "client" / "former.py").write_text("MINE = True\n")
    for name in [name for name in sys.modules if name.partition(".")[0] == "client"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [finder for finder in sys.meta_path if finder is not FIRST])
    monkeypatch.syspath_prepend(tmp_path)
    assert import_module("client.former").MINE


def test_a_package_with_the_former_name_of_a_module_has_its_names():
    find = moved.names_of("server.selectors.selector")
    with pytest.warns(DeprecationWarning, match=r"server\.selectors is now server\.selectors\.selector"):
        assert find("Selector") is import_module("server.selectors.selector").Selector
    with pytest.raises(AttributeError):
        find("Nothing")
