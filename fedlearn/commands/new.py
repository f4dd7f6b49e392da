"""``fedlearn new``: a small project to begin with, or an algorithm with its test and its row in a table."""

from __future__ import annotations

import keyword
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fedlearn.core.errors import RunFailed, UsageError, printable, said

HERE = Path(__file__).parent / "project"
FILES = {
    "README.md.txt": "README.md",
    "settings.toml.txt": "settings.toml",
    "data.py.txt": "NAME/data.py",
    "model.py.txt": "NAME/model.py",
    "strategy.py.txt": "NAME/strategy.py",
    "test_project.py.txt": "tests/test_NAME.py",
}
"""File in `HERE` -> place in the project; NAME in either stands for the name of the project."""

ALGORITHM = {
    "algorithm_README.md.txt": "README.md",
    "algorithm.py.txt": "NAME.py",
    "test_algorithm.py.txt": "test_NAME.py",
    "table.toml.txt": "table.toml",
}
"""The same of an algorithm; CLASS stands for the name of its class."""

TABLE = ("sweep", "table.toml", "--out", "runs/table")
"""The command that runs an algorithm beside others."""


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the folder, and of the Python package in it.")],
    algorithm: Annotated[
        bool, typer.Option("--algorithm", help="Make an algorithm: its file, its test, its row in a table.")
    ] = False,
    run: Annotated[
        bool, typer.Option("--run", help="With --algorithm: make it if it does not exist, and run its table.")
    ] = False,
) -> None:
    """Make a small project in a folder: own data, model and strategy, a test, and the commands that run them.

    With --algorithm: a strategy and a learner, a test against formulas, and a table that compares it with others.
    """
    package = name.strip().replace("-", "_")
    if run and not algorithm:
        raise UsageError("--run runs the table of an algorithm: add --algorithm, or leave it out")
    _check(name, package)
    folder = Path(name)
    if not (run and (folder / TABLE[1]).is_file()):
        _write(folder, package, ALGORITHM if algorithm else FILES)
        todo = (
            f"python -m pytest\nfedlearn {' '.join(TABLE)}" if algorithm else "fedlearn simulate --config settings.toml"
        )
        print(f"\ncd {printable(name)}\n{todo}")
    if run:
        _run_table(folder)


def _write(folder: Path, package: str, files: Mapping[str, str]) -> None:
    """Write the files of a project, and print their names."""
    words = {"NAME": package, "CLASS": "".join(part[:1].upper() + part[1:] for part in package.split("_"))}
    try:
        folder.mkdir(exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{said(folder)}: the folder is not empty; name another")
        for source, place in files.items():
            path = folder / place.replace("NAME", package)
            path.parent.mkdir(exist_ok=True)
            text = (HERE / source).read_text(encoding="utf-8")
            path.write_text(re.sub("CLASS|NAME", lambda found: words[found[0]], text), encoding="utf-8")
        if files is FILES:
            (folder / package / "__init__.py").touch()
    except OSError as error:
        raise RunFailed(
            f"{said(error.filename or folder)}: {error.strerror}: name a folder that can be written to"
        ) from None
    for made in sorted(path.relative_to(folder.parent) for path in folder.rglob("*") if path.is_file()):
        print(printable(str(made)))


def _run_table(folder: Path) -> None:
    """Run the table of an algorithm in its folder, or resume it."""
    done = subprocess.run([sys.executable, "-m", "fedlearn", *TABLE], cwd=folder, check=False)
    if done.returncode:
        raise RunFailed(f"{said(folder)}: the table has failed; the same command resumes it")


def _check(name: str, package: str) -> None:
    if not package.isidentifier() or not package.isascii() or keyword.iskeyword(package):
        raise UsageError(f"{said(name)}: it must also name a Python package: letters, digits and _, such as my_study")
    if find_spec(package) is not None and not Path(package).is_dir():
        raise UsageError(f"{said(name)}: Python has a module {package} already; take another name")
