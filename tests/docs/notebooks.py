"""Runs a tutorial as a notebook: each cell in order, in a kernel in an empty folder."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from unittest.mock import patch

import nbformat
from nbclient import NotebookClient

from docs.notebooks import notebook
from tests.docs.pages import ROOT, environment


class Executed:
    """The cells of code, with what they show and the seconds that they take."""

    def __init__(self, page: Path, folder: Path) -> None:
        made = nbformat.from_dict(notebook(page))
        self.cells = [cell for cell in made.cells if cell.cell_type == "code"]
        self.seconds: list[float] = []
        client = NotebookClient(made, timeout=600, resources={"metadata": {"path": str(folder)}})
        variables = {**environment(sys.executable, str(ROOT)), "JUPYTER_PLATFORM_DIRS": "1"}
        with patch.dict(os.environ, variables), client.setup_kernel():
            for place, cell in enumerate(made.cells):
                if cell.cell_type == "code":
                    begin = time.monotonic()
                    client.execute_cell(cell, place)
                    self.seconds.append(time.monotonic() - begin)

    def shown(self, place: int, kind: str = "text/plain") -> str:
        """Return the output of a cell, printed or as its value."""
        outputs = self.cells[place].outputs
        return "".join(each.get("text", "") or each.get("data", {}).get(kind, "") for each in outputs)
