"""The wheel in an environment of its own: command, call and examples of the docs, from a folder outside the repository.

What fedlearn depends on comes from the environment of these tests by its path, so that torch's gigabytes are not
installed again; fedlearn itself, which is editable there, does not.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email import message_from_bytes

import pytest

from client.memory import NodeMemory
from fedlearn import __version__
from fedlearn.engine.deployment.job import app_files
from tests.docs.pages import ROOT, environment, run

pytestmark = pytest.mark.long

PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
PAGES = ("howto/own_metric.md", "howto/reproduce.md", "gallery/scaffold.md")  # call, command, sweep, report, own code


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT]
    subprocess.run([*PIP, *build], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def python(tmp_path_factory, wheel):
    """Return the interpreter of an environment in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv")
    python = str(folder / "venv" / "bin" / "python")
    subprocess.run([*PIP, "--python", python, "install", "--no-deps", wheel], check=True)
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
    (folder / "venv" / site / "others.pth").write_text(sysconfig.get_path("purelib"))
    return python


def test_what_is_imported_is_the_wheel(python, tmp_path):
    ask = "import fedlearn, fedlearn.strategies; print(fedlearn.__file__, fedlearn.strategies.__file__)"
    where = {"cwd": tmp_path, "env": environment(python, ""), "capture_output": True, "text": True, "check": True}
    found = subprocess.run([python, "-c", ask], **where).stdout.split()
    assert all(path.startswith(python.removesuffix("/bin/python")) for path in found)
    assert "0." in subprocess.run(["fedlearn", "--version"], **where).stdout


def asked(python, program, folder):
    where = {"cwd": folder, "env": environment(python, ""), "capture_output": True, "text": True, "check": False}
    done = subprocess.run([python, "-c", program], **where)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_takes_no_common_name(wheel):
    with zipfile.ZipFile(wheel) as file:
        assert {name.partition("/")[0] for name in file.namelist()} == {"fedlearn", f"fedlearn-{__version__}.dist-info"}


def test_both_names_are_one_module_and_a_pickle_of_a_clone_loads(python, tmp_path):
    pickled = pickle.dumps(NodeMemory)
    program = f"""
import pickle, fedlearn.extend, fedlearn.server.app, server.app, sys
assert fedlearn.server.app is server.app is sys.modules["server.app"] and server.app.__name__ == "server.app"
memory = fedlearn.extend.NodeMemory
assert pickle.loads({pickled!r}) is memory and pickle.dumps(memory) == {pickled!r}
"""
    asked(python, program, tmp_path)


RUN = """
import server, client  # the user's own
import fedlearn
if __name__ == "__main__":
    run = fedlearn.run(clients=4, dataset="digits", model="linear", rounds=2, seed=3, progress=False, out="run",
                       settings={"engine.name": "embedded", "engine.workers": 2})
    import server, client
    print(server.mine, client.mine, run.sha256)
"""


def test_a_run_beside_modules_of_the_same_names_makes_the_model_of_the_repository(python, tmp_path):
    homes = {"wheel": python, "clone": sys.executable}
    found = {}
    for home, interpreter in homes.items():
        folder = tmp_path / home
        folder.mkdir()
        for name in ("server", "client"):
            (folder / f"{name}.py").write_text("mine = 1")
        (folder / "own.py").write_text(RUN)
        where = {"cwd": folder, "env": environment(interpreter, ROOT if home == "clone" else ""), "text": True}
        done = subprocess.run([interpreter, "own.py"], **where, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        found[home] = done.stdout
    assert found["wheel"] == found["clone"] and found["wheel"].startswith("1 1 ")


def test_a_type_checker_sees_what_a_plugin_imports(python, tmp_path):
    (tmp_path / "own.py").write_text("from fedlearn.extend import SGD\nreveal_type(SGD.fit)\n")
    command = [sys.executable, "-m", "mypy", "--python-executable", python, "--cache-dir", tmp_path / "cache", "own.py"]
    where = {"cwd": tmp_path, "env": environment(python, ""), "capture_output": True, "text": True, "check": False}
    told = subprocess.run(command, **where).stdout
    assert "State" in told or "Mapping" in told, told


def test_an_index_reads_the_metadata_of_the_wheel(wheel):
    with zipfile.ZipFile(wheel) as file:
        (name,) = (each for each in file.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(file.read(name))
    source = "https://github.com/fedlearn/fedlearn"
    assert metadata["Metadata-Version"] == "2.4"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert f"]({source}/raw/main/docs/_static/why.svg)" in metadata.get_payload()


def test_a_run_can_be_submitted_from_the_wheel(python, tmp_path):
    """The bundle that `fedlearn submit` sends has the same files as one of the repository."""
    ask = f"from {app_files.__module__} import app_files; print(*(n for n, p in app_files().items() if p.is_file()))"
    where = {"cwd": tmp_path, "env": environment(python, ""), "capture_output": True, "text": True, "check": True}
    assert set(subprocess.run([python, "-c", ask], **where).stdout.split()) == set(app_files())


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_as_in_the_repository(python, tmp_path, page):
    run(ROOT / "docs" / page, tmp_path, python=python, root="")
