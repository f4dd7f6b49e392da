"""``fedlearn new``: a small project to begin with."""

from __future__ import annotations

import keyword
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fedlearn.words.errors import RunFailed, UsageError, printable, said

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


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the folder, and of the Python package in it.")],
) -> None:
    """Make a small project in a folder: own data, model and strategy, a test, and the commands that run them."""
    package = name.strip().replace("-", "_")
    _check(name, package)
    folder = Path(name)
    try:
        folder.mkdir(exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{said(folder)}: the folder is not empty; name another")
        for source, place in FILES.items():
            path = folder / place.replace("NAME", package)
            path.parent.mkdir(exist_ok=True)
            path.write_text((HERE / source).read_text(encoding="utf-8").replace("NAME", package), encoding="utf-8")
        (folder / package / "__init__.py").touch()
    except OSError as error:
        raise RunFailed(f"{said(error.filename or folder)}: {error.strerror}") from None
    for made in sorted(path.relative_to(folder.parent) for path in folder.rglob("*") if path.is_file()):
        print(printable(str(made)))
    print(f"\ncd {printable(name)}\nfedlearn simulate --config settings.toml")


def _check(name: str, package: str) -> None:
    if not package.isidentifier() or not package.isascii() or keyword.iskeyword(package):
        raise UsageError(f"{said(name)}: it must also name a Python package: letters, digits and _, as in my_study")
    if find_spec(package) is not None and not Path(package).is_dir():
        raise UsageError(f"{said(name)}: Python has a module {package} already; take another name")
