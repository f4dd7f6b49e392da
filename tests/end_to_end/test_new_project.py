"""`fedlearn new`: everything in the project runs as it was generated, far from the repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT


@pytest.fixture
def shell(tmp_path):
    """Run a line as a stranger does: our command on the path, none of our files in the current folder."""

    def shell(line: str, folder: Path = tmp_path, code: int = 0) -> str:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        env = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "FEDLEARN_CACHE": str(tmp_path / "cache")}
        done = subprocess.run(
            ["bash", "-c", line], cwd=folder, env=env, capture_output=True, text=True, timeout=600
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return shell


@pytest.mark.slow
def test_every_command_of_its_readme_runs(shell, tmp_path):
    assert "cd my-study\nfedlearn simulate --config settings.toml" in shell("fedlearn new my-study")
    project = tmp_path / "my-study"
    (block,) = re.findall(r"```bash\n(.*?)```", (project / "README.md").read_text(), flags=re.DOTALL)
    run, test = block.splitlines()
    assert "PartOfTheWay" in shell(run, project)
    assert "4 passed" in shell(f"{test} -p no:cacheprovider", project)
    assert "1 run" in shell("fedlearn runs", project)
    assert not [path for path in project.rglob("*") if "NAME" in path.name or path.suffix == ".txt"]


def test_its_code_is_as_ruff_would_have_it(shell):
    shell("fedlearn new study && cd study && ruff format --check . && ruff check --select E,F,I,B,UP .")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("json", "Python has a module json already"),
        ("2nd", "it must also name a Python package"),
        ("a/b", "it must also name a Python package"),
        ("full", "the folder is not empty"),
    ],
)
def test_a_name_that_cannot_be_is_refused_and_leaves_nothing(shell, tmp_path, name, message):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    said = shell(f"fedlearn new {name}", code=2)
    assert message in said
    assert said.count("\n") == 1
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["full", "thesis.tex"]
