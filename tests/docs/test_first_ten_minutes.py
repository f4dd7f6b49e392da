"""The first tutorial as a notebook: what its cells show, and how long they take."""

from __future__ import annotations

import re

import pytest

from tests.docs.notebooks import Executed
from tests.docs.pages import ROOT

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    return Executed(ROOT / "docs/tutorials/first_ten_minutes.md", tmp_path_factory.mktemp("notebook"))


def test_own_data_and_model_take_twelve_lines_and_less_than_a_minute(notebook):
    lines = [line for line in notebook.cells[0].source.splitlines() if line.strip()]
    assert len(lines) <= 12
    accuracy = float(re.search(r"test accuracy ([\d.]+)", notebook.shown(0))[1])
    assert accuracy > 0.5  # guessing gives 0.2
    assert notebook.seconds[0] < 60


def test_command_makes_the_same_model_as_the_notebook(notebook):
    assert notebook.shown(-1) == "True"


def test_rounds_are_shown_below_the_cell_and_so_is_the_run(notebook):
    assert "Net-" in notebook.shown(0, "text/html")
    assert "<svg" in notebook.shown(1, "text/html")
    assert "<script" not in notebook.shown(1, "text/html")
