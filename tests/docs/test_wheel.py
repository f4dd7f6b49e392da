"""The wheel in an environment of its own: command, call and examples of the docs, from a folder outside the repository.

What fedlearn depends on comes from the environment of these tests by its path, so that torch's gigabytes are not
installed again; fedlearn itself, which is editable there, does not.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv

import pytest

from tests.docs.pages import ROOT, environment, run

pytestmark = pytest.mark.long

PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
PAGES = ("howto/own_metric.md", "howto/reproduce.md", "gallery/scaffold.md")  # call, command, sweep, report, own code


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Return the interpreter of an environment in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("installed")
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT]
    subprocess.run([*PIP, *build], check=True)
    (wheel,) = folder.glob("*.whl")
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


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_as_in_the_repository(python, tmp_path, page):
    run(ROOT / "docs" / page, tmp_path, python=python, root="")
