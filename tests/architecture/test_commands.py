"""Every command that a README or a docstring names is there, and every file that CONTRIBUTING.md sends one to."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from fedlearn.cli import app

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("fedlearn", "server", "client", "strategies", "experiments", "tests")
PAGES = sorted((*ROOT.glob("*.md"), *(page for package in PACKAGES for page in (ROOT / package).rglob("*.md"))))
SOURCES = sorted(path for package in PACKAGES[:-1] for path in (ROOT / package).rglob("*.py"))
COMMANDS = set(typer.main.get_command(app).commands)


def modules_named_in(path: Path) -> set[str]:
    """Return our modules that a file runs by ``python -m``."""
    named = re.findall(r"python -m ([a-z_]+(?:\.[a-z0-9_]+)*)(?!\.?[A-Z{\w])", path.read_text(encoding="utf-8"))
    return {module for module in named if module.partition(".")[0] in PACKAGES}


MODULES = {module: path for path in (*PAGES, *SOURCES) for module in modules_named_in(path)}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_module_that_is_to_be_run_can_be(module):
    place = ROOT / module.replace(".", "/")
    main = place / "__main__.py" if place.is_dir() else place.with_suffix(".py")
    assert main.is_file(), f"{MODULES[module]} names it"
    assert 'if __name__ == "__main__":' in main.read_text(encoding="utf-8"), f"{MODULES[module]} runs it"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_fedlearn_commands_in_a_page_exist(page):
    lines = re.findall(r"^(?:fedlearn|python -m fedlearn) .*$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert {shlex.split(line, comments=True)[1 if line.startswith("f") else 3] for line in lines} <= COMMANDS


def test_files_that_a_contributor_is_sent_to_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = {path for path in re.findall(r"[`(]([a-z_]+(?:/[\w.]+)+)/?[`)#]", text) if "NAME" not in path}
    assert len(paths) > 15
    assert {path for path in paths if not (ROOT / path).exists()} == set()
