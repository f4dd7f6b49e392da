"""The first tutorial as a notebook: its blocks in cells, one after the other, in a kernel in an empty folder."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from markdown_it import MarkdownIt
from nbclient import NotebookClient

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "tutorials" / "first_ten_minutes.md"
COMMAND = [sys.executable, "-P", "-c", "from fedlearn.cli import main; main()"]  # as the script `fedlearn` starts
CAPTION = re.compile(r":caption: (\S+)\n\n")

pytestmark = pytest.mark.long


class Notebook:
    """The page while it is run."""

    def __init__(self, folder: Path) -> None:
        fences = [token for token in MarkdownIt().parse(PAGE.read_text(encoding="utf-8")) if token.type == "fence"]
        self.blocks = [(token.info.strip(), token.content) for token in fences]
        cells = [nbformat.v4.new_code_cell(text) for kind, text in self.blocks if kind == "python"]
        self.cells = cells
        self.client = NotebookClient(
            nbformat.v4.new_notebook(cells=cells), timeout=300, resources={"metadata": {"path": str(folder)}}
        )
        self.folder = folder
        self.seconds: list[float] = []  # of each cell

    def run(self) -> None:
        with self.client.setup_kernel():
            for kind, text in self.blocks:
                if kind == "python":
                    begin, place = time.monotonic(), len(self.seconds)
                    self.client.execute_cell(self.client.nb.cells[place], place)
                    self.seconds.append(time.monotonic() - begin)
                elif caption := CAPTION.match(text):
                    (self.folder / caption[1]).write_text(text[caption.end() :], encoding="utf-8")
                elif kind == "bash":
                    done = subprocess.run(
                        [*COMMAND, *text.split()[1:]], cwd=self.folder, capture_output=True, text=True
                    )
                    assert done.returncode == 0, done.stderr

    def shown(self, place: int, kind: str = "text/plain") -> str:
        """Return the output of a cell, printed or as its value."""
        outputs = self.client.nb.cells[place].outputs
        return "".join(each.get("text", "") or each.get("data", {}).get(kind, "") for each in outputs)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("JUPYTER_PLATFORM_DIRS", "1")
        notebook = Notebook(tmp_path_factory.mktemp("notebook"))
        notebook.run()
    return notebook


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
