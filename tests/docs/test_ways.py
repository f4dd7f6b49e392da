"""The ways that READMEs describe, function by function, are those that a run goes."""

from __future__ import annotations

import ast
import re
import sys

import pytest
from typer.testing import CliRunner

from fedlearn.cli import app
from tests.docs.pages import ROOT

WAYS = {
    "fedlearn/config/README.md": ("## The way of a setting", ()),
    "server/README.md": ("## The way of an update", ()),
    "fedlearn/privacy/README.md": (
        "## The way of a budget",
        ("--private", "records", "--epsilon", "8", "--set", "privacy.delta=1e-5"),
    ),
}
RUN = (
    *("simulate", "--dataset", "digits", "--model", "linear", "--clients", "4", "--cohort", "2", "--rounds", "1"),
    *("--batch-size", "16", "--lr", "0.02", "--engine", "inline", "--set", "training.stack=1", "--quiet"),
)


def way_in(page):
    """Return [(file, function)] of the way that a README describes."""
    _, _, section = (ROOT / page).read_text(encoding="utf-8").partition(f"{WAYS[page][0]}\n")
    found = []
    for line in re.findall(r"^\d+\. (.*)$", section.partition("\n## ")[0], re.MULTILINE):
        file, *functions = re.findall(r"`([^`]+)`", line.partition(":")[0])
        found += [(file, function) for function in functions]
    return found


def functions_in(file):
    """Return the qualified names of the functions of a module and of its classes."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    kinds = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    inside = {f"{kind.name}.{node.name}" for kind in kinds for node in kind.body if isinstance(node, ast.FunctionDef)}
    return inside | {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", WAYS)
def test_each_function_of_a_way_exists_in_at_most_twelve_files(page):
    way = way_in(page)
    assert len(way) > 10
    assert [each for each in way if each[1] not in functions_in(each[0])] == []
    assert len({file for file, _ in way}) <= 12


@pytest.mark.long
@pytest.mark.parametrize("page", WAYS)
def test_a_run_goes_the_way(page, tmp_path):
    files, called = {str(ROOT / file): file for file, _ in way_in(page)}, set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename in files:
            called.add((files[frame.f_code.co_filename], frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        done = CliRunner().invoke(app, [*RUN, *WAYS[page][1], "--out", str(tmp_path / "run")])
    finally:
        sys.setprofile(before)
    assert done.exit_code == 0, done.output
    at_import = {("fedlearn/commands/flags.py", "with_flags")}
    assert {*way_in(page)} - at_import - called == set()
