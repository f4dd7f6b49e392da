"""The repository is a Flower App: `flwr build` packs exactly the files that run."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("fedlearn", "server", "client", "strategies")


def tracked_files() -> list[str]:
    """Return the files of a fresh clone: tracked files, and new ones that git does not ignore."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a git checkout: cannot tell which files are the app's")
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def fab(tmp_path_factory) -> Path:
    """Build in a clean copy of the repository; return the bundle."""
    copy = tmp_path_factory.mktemp("clone") / "fedlearn-app"
    for name in tracked_files():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    flwr = Path(sys.executable).with_name("flwr")
    env = {**os.environ, "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "FLWR_HOME": str(copy.parent)}
    done = subprocess.run([flwr, "build", "--app", copy], cwd=copy.parent, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = copy.parent.rglob("*.fab")
    return built


def test_the_bundle_holds_what_runs_and_nothing_else(fab):
    names = {name for name in zipfile.ZipFile(fab).namelist() if not name.startswith(".info")}
    wanted = {
        path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py")
    }  # fmt: skip
    assert wanted - names == set()
    assert {name for name in names - wanted if not name.endswith(".md")} == {"pyproject.toml", "LICENSE"}
    assert fab.stat().st_size < 5_500_000  # bytes: the code of today is 5.0 MB, no data; Flower takes 10 MB


def test_both_apps_load_from_the_unpacked_bundle(fab, tmp_path):
    zipfile.ZipFile(fab).extractall(tmp_path / "app")
    program = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from fedlearn.engine.apps import load_client_app, load_server_app
load_server_app(), load_client_app()
import client, fedlearn, server, strategies
for package in (client, fedlearn, server, strategies):
    assert Path(package.__file__).is_relative_to(sys.argv[1]), package.__file__
print("loaded")
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "app"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "loaded\n", done.stderr
