"""Modules whose code runs when one of their names is first read."""

import importlib
import subprocess
import sys
import threading
from importlib.util import find_spec
from types import ModuleType

import pytest

from fedlearn.engine import lazy_imports

RAN = "import sys; sys.modules['ran'].names.append(__name__)\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that writes a package, puts its code off and imports it; `ran` lists whose code has run."""
    ran = ModuleType("ran")
    ran.names = []
    monkeypatch.setitem(sys.modules, "ran", ran)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.syspath_prepend(tmp_path)
    before = {*sys.modules}

    def made(code="VALUE = 1", **submodules):
        (tmp_path / "seldom").mkdir()
        for name, text in {"__init__": code, **submodules}.items():
            (tmp_path / "seldom" / f"{name}.py").write_text(RAN + text)
        lazy_imports.put_off(frozenset({"seldom"}))
        return importlib.import_module("seldom"), ran.names

    yield made
    for name in {*sys.modules} - before:
        del sys.modules[name]


def test_code_runs_when_a_name_is_read_and_once(package):
    seldom, ran = package()
    assert (seldom.__name__, seldom.__file__.endswith("__init__.py"), ran) == ("seldom", True, [])
    assert (seldom.VALUE, seldom.VALUE, ran) == (1, 1, ["seldom"])
    assert type(seldom) is ModuleType
    with pytest.raises(AttributeError, match="module 'seldom' has no attribute 'OTHER'"):
        _ = seldom.OTHER


def test_a_submodule_is_imported_without_the_packages_code(package):
    _, ran = package(part="PART = 2")
    assert importlib.import_module("seldom.part").PART == 2
    assert ran == ["seldom.part"]
    assert find_spec("seldom") is not None
    assert ran == ["seldom.part"]


@pytest.mark.parametrize("statement", ["from seldom import VALUE", "from seldom import *"])
def test_importing_its_names_runs_it(package, statement):
    _, ran = package("__all__ = ['VALUE']\nVALUE = 1")
    names = {}
    exec(statement, names)
    assert (names["VALUE"], ran) == (1, ["seldom"])


def test_a_circle_of_imports_is_as_it_was(package):
    seldom, ran = package(
        "from seldom import part\nVALUE = part.PART", part="import seldom\nPART = hasattr(seldom, 'VALUE')"
    )
    assert seldom.VALUE is False
    assert ran == ["seldom", "seldom.part"]


def test_its_own_function_for_further_names_is_asked(package):
    seldom, _ = package("def __getattr__(name):\n    return name.upper()")
    assert seldom.further == "FURTHER"


def test_an_error_in_its_code_is_raised_wherever_a_name_is_read(package):
    seldom, ran = package("raise ImportError('broken')")
    for _ in range(2):
        with pytest.raises(ImportError, match="broken"):
            _ = seldom.VALUE
    assert ran == ["seldom", "seldom"]


def test_a_second_thread_waits_for_the_code(package):
    seldom, ran = package("import time\ntime.sleep(0.2)\nVALUE = 1")
    read = []
    threads = [threading.Thread(target=lambda: read.append(seldom.VALUE)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (read, ran) == ([1, 1, 1], ["seldom"])


def test_a_module_that_is_not_there_cannot_be_imported(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    lazy_imports.put_off(frozenset({"seldom_nowhere"}))
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("seldom_nowhere")


OURS = ("client.", "server.", "fedlearn.")
READ = """
import {first}
from fedlearn.engine.lazy_imports import SELDOM_READ
import sys
from types import ModuleType
print(*sorted(name for name in SELDOM_READ if type(sys.modules.get(name)) is ModuleType))
print(*sorted(SELDOM_READ - {{*sys.modules}}))
"""


@pytest.mark.parametrize(
    ("first", "kinds"),
    [
        ("fedlearn.engine.embedded.preload", ("torch", *OURS)),
        pytest.param(
            "fedlearn.engine.embedded.preload, fedlearn.engine.embedded.preload_torch", OURS, marks=pytest.mark.slow
        ),
    ],
)
def test_workers_begin_with_none_of_them_run(first, kinds):
    done = subprocess.run([sys.executable, "-c", READ.format(first=first)], capture_output=True, text=True, check=True)
    run, absent = done.stdout.splitlines()
    assert run == "", "an import reads a name of these: a run's start-up pays for them"
    assert not [name for name in absent.split() if not name.startswith(kinds)], "a library has none of this name"


def test_modules_of_ours_that_are_put_off_are_there():
    assert all(find_spec(name) for name in lazy_imports.SELDOM_READ if name.startswith(OURS))


def test_a_run_from_python_imports_what_makes_tables_only_when_one_is_asked_for():
    program = "import sys, fedlearn; fedlearn.run; assert 'fedlearn.api' in sys.modules and 'pandas' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
