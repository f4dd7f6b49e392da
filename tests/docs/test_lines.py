"""How many lines of their own users need, counted on the how-tos that are run, without imports."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.docs.pages import program

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
LONGEST = {
    "own_training.md": {"mine.py": 10},
    "own_model.md": {"poets.py": 25},
    "own_algorithm.md": {"fedper.py": 30, "robust.py": 20, "scaffold_sgd.py": 45},
}


def lines_of(text):
    """Return the lines of classes, functions and constants: without imports, docstrings, comments and empty ones."""
    tree = ast.parse(text)
    left_out = set()
    for node in ast.walk(tree):
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_docstring or isinstance(node, ast.Import | ast.ImportFrom):
            left_out |= set(range(node.lineno, node.end_lineno + 1))
    lines = enumerate(text.splitlines(), start=1)
    return [
        line for number, line in lines if line.strip() and number not in left_out and not line.strip().startswith("#")
    ]


def files_of(page):
    """Return the files that a page writes: caption -> text."""
    blocks = (HOWTO / page).read_text(encoding="utf-8").split("```{code-block} python\n:caption: ")[1:]
    return {block.partition("\n")[0]: block.partition("\n\n")[2].partition("\n```")[0] for block in blocks}


@pytest.mark.parametrize(("page", "limits"), LONGEST.items(), ids=LONGEST)
def test_what_a_how_to_asks_for_is_short(page, limits):
    assert program((HOWTO / page).read_text(encoding="utf-8"))  # it is run, as all pages are
    files = files_of(page)
    for name, limit in limits.items():
        assert 0 < len(lines_of(files[name])) <= limit
