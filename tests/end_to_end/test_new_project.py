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


@pytest.mark.long
def test_every_command_of_its_readme_runs(shell, tmp_path):
    assert "cd my-study\nfedlearn simulate --config settings.toml" in shell("fedlearn new my-study")
    project = tmp_path / "my-study"
    (block,) = re.findall(r"```bash\n(.*?)```", (project / "README.md").read_text(), flags=re.DOTALL)
    run, test = block.splitlines()
    assert "PartOfTheWay" in shell(run, project)
    assert "4 passed" in shell(f"{test} -p no:cacheprovider", project)
    assert "1 run" in shell("fedlearn runs", project)
    assert not [path for path in project.rglob("*") if "NAME" in path.name or path.suffix == ".txt"]


@pytest.mark.long
def test_every_command_of_an_algorithms_readme_runs(shell, tmp_path):
    assert "cd my-rule\npython -m pytest\nfedlearn sweep table.toml" in shell("fedlearn new --algorithm my-rule")
    project = tmp_path / "my-rule"
    (block,) = re.findall(r"```bash\n(.*?)```", (project / "README.md").read_text(), flags=re.DOTALL)
    test, table = (line.partition("#")[0].strip() for line in block.splitlines())
    assert "5 passed" in shell(f"{test} -p no:cacheprovider", project)
    broken = (project / "my_rule.py").read_text().replace("self.pull * (y - x)", "self.pull * y")
    (project / "my_rule.py").write_text(broken)
    assert "3 failed" in shell(f"{test} -p no:cacheprovider", project, code=1)
    assert "my_rule" in shell(f"{table} --quick", project)
    assert not [path for path in project.rglob("*") if "NAME" in path.name or path.suffix == ".txt"]


@pytest.mark.parametrize("flags", ["", "--algorithm"])
def test_its_code_is_as_ruff_would_have_it(shell, flags):
    shell(f"fedlearn new {flags} study && cd study && ruff format --check . && ruff check --select E,F,I,B,UP .")


def test_a_table_is_run_for_an_algorithm_alone(shell, tmp_path):
    assert "add --algorithm" in shell("fedlearn new study --run", code=2)
    assert not list(tmp_path.iterdir())


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
