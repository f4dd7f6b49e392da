"""Every block of a tutorial is run as it stands, in an empty folder, by a kernel and a shell of its own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
BLOCK = re.compile(
    r"^```\{(code-cell|code-block)\} (\w+)\n(?::caption: (\S+)\n\n)?(.*?)^```$", re.MULTILINE | re.DOTALL
)
COMMAND = [sys.executable, "-P", "-c", "from fedlearn.cli import main; main()"]  # as the script `fedlearn` starts

pytestmark = pytest.mark.slow


class Page:
    """A tutorial that is being run, block after block."""

    def __init__(self, name: str, folder: Path) -> None:
        self.blocks = BLOCK.findall((TUTORIALS / name).read_text(encoding="utf-8"))
        cells = [nbformat.v4.new_code_cell(text) for kind, _, _, text in self.blocks if kind == "code-cell"]
        self.notebook = nbformat.v4.new_notebook(cells=cells)
        self.client = NotebookClient(self.notebook, timeout=300, resources={"metadata": {"path": str(folder)}})
        self.folder = folder
        self.seconds: list[float] = []  # of each cell

    def run(self) -> None:
        place = 0
        with self.client.setup_kernel():
            for kind, language, caption, text in self.blocks:
                if kind == "code-cell":
                    began = time.monotonic()
                    self.client.execute_cell(self.notebook.cells[place], place)
                    self.seconds.append(time.monotonic() - began)
                    place += 1
                elif caption:
                    (self.folder / caption).write_text(text, encoding="utf-8")
                elif language == "bash":
                    for line in text.splitlines():
                        self.command(line)

    def command(self, line: str) -> None:
        program, *arguments = shlex.split(line, comments=True)
        assert program == "fedlearn"
        done = subprocess.run([*COMMAND, *arguments], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def shown(self, place: int, kind: str = "text/plain") -> str:
        """Return what a cell shows, printed or as its value."""
        outputs = self.notebook.cells[place].outputs
        return "".join(each.get("text", "") or each.get("data", {}).get(kind, "") for each in outputs)


@pytest.fixture(scope="module")
def first_ten_minutes(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("JUPYTER_PLATFORM_DIRS", "1")
        page = Page("first_ten_minutes.md", tmp_path_factory.mktemp("tutorial"))
        page.run()
    return page


def test_own_data_and_model_take_twelve_lines_and_less_than_a_minute(first_ten_minutes):
    first = first_ten_minutes.notebook.cells[0].source
    assert len([line for line in first.splitlines() if line.strip()]) <= 12
    accuracy = float(re.search(r"test accuracy ([\d.]+)", first_ten_minutes.shown(0))[1])
    assert accuracy > 0.5  # guessing gives 0.2
    if "PYTEST_XDIST_WORKER" not in os.environ:
        assert first_ten_minutes.seconds[0] < 60


def test_command_makes_the_same_model_as_the_notebook(first_ten_minutes):
    assert first_ten_minutes.shown(-1) == "True"


def test_rounds_are_shown_below_the_cell_and_so_is_the_run(first_ten_minutes):
    assert "Net-" in first_ten_minutes.shown(0, "text/html")
    assert "<svg" in first_ten_minutes.shown(1, "text/html")
    assert "<script" not in first_ten_minutes.shown(1, "text/html")
