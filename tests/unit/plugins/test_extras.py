"""What runs without the libraries that extras install, and what is said where one is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fedlearn.plugins.extras import EXTRA_OF, EXTRAS, MissingExtra, version_of

WITHOUT = f"""
import sys
from importlib.machinery import PathFinder

class Without:
    find_distributions = staticmethod(PathFinder.find_distributions)

    def find_spec(self, name, path=None, target=None):
        return None if name in {tuple(EXTRA_OF)!r} else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without()
"""
TRIED = """
import fedlearn
from fedlearn.core.errors import UsageError

run = fedlearn.run(clients=3, data="digits", model="linear", rounds=2, engine="inline")
print(run.report().exists())
for job in (
    lambda: run.plot(),
    lambda: fedlearn.run(clients=3, data="digits", model="resnet18", rounds=1, engine="inline"),
    lambda: fedlearn.run(clients=3, data="diabetes", model="dp-forest", epsilon=1.0, rounds=1, engine="inline"),
):
    try:
        job()
    except UsageError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    command = [sys.executable, "-c", WITHOUT + TRIED]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path_factory.mktemp("core"))
    assert not done.returncode, done.stderr
    assert "there are no figures as files: matplotlib is not installed" in done.stdout + done.stderr
    return done.stdout.splitlines()[-4:]


@pytest.mark.long
def test_a_run_and_its_page_need_no_extra(told):
    assert told[0] == "True"


@pytest.mark.parametrize(
    ("number", "library", "extra"),
    [(1, "matplotlib", "report"), (2, "torchvision", "data"), (3, "llvmlite", "fast")],
)
def test_a_missing_library_is_one_line_with_the_command(told, number, library, extra):
    assert told[number].endswith(f'{library} is not installed: pip install "fedlearn[{extra}]"')


def imported_from(module: str, name: str) -> None:
    exec(f"import {name}", {"__name__": module})


@pytest.fixture
def without(monkeypatch):
    """Have a library that is nowhere stand in the table."""
    monkeypatch.setitem(EXTRA_OF, "nowhere_at_all", "data")
    assert EXTRAS in sys.meta_path


@pytest.mark.parametrize("module", ["fedlearn.models.torch.notes", "client.node", "strategies"])
def test_our_modules_are_told_of_the_extra(without, module):
    with pytest.raises(MissingExtra, match=r'nowhere_at_all is not installed: pip install "fedlearn\[data\]"'):
        imported_from(module, "nowhere_at_all")


@pytest.mark.parametrize("module", ["sklearn.base", "__main__", "fedlearning", "clients"])
def test_other_modules_get_pythons_own_error(without, module):
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        imported_from(module, "nowhere_at_all")


def test_one_may_look_whether_a_library_is_there(without):
    namespace = {"__name__": "fedlearn.kernels"}
    exec("from importlib.util import find_spec; found = find_spec('nowhere_at_all')", namespace)
    assert namespace["found"] is None


def test_a_version_is_that_of_the_distribution(without):
    assert version_of("flwr_datasets").startswith("0.")
    with pytest.raises(MissingExtra):
        version_of("nowhere_at_all")
