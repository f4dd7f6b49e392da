"""How many lines of their own users need, counted on pages that are run, without imports."""

from __future__ import annotations

import ast
import re

import pytest

from tests.docs.gallery import FIGURES, GALLERY
from tests.docs.pages import PAGES, ROOT, files_of, program

DOCS = ROOT / "docs"
LONGEST = {
    "howto/own_training.md": {"mine.py": 10},
    "howto/own_model.md": {"poets.py": 25},
    "gallery/fedper.md": {"fedper.py": 30},
    "gallery/geometric_median.md": {"robust.py": 20},
    "gallery/scaffold.md": {"scaffold.py": 45},
}
SHOWN = {"towns.py", "mislabelled.py"}  # the data of a page of the gallery, not what it is about


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


@pytest.mark.parametrize(("page", "limits"), LONGEST.items(), ids=LONGEST)
def test_what_a_page_asks_for_is_short(page, limits):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert program(text)  # it is run, as all pages are
    files = files_of(text)
    for name, limit in limits.items():
        assert 0 < len(lines_of(files[name])) <= limit


@pytest.mark.parametrize("name", FIGURES)
def test_lines_that_the_gallery_claims_are_those_of_the_page(name):
    said = re.search(rf"\({name}\.md\) \|.*\| (\d+) \|", (GALLERY / "index.md").read_text(encoding="utf-8"))
    files = files_of((GALLERY / f"{name}.md").read_text(encoding="utf-8"))
    assert int(said[1]) == sum(len(lines_of(text)) for file, text in files.items() if file not in SHOWN)


FOLDERS = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")]  # .venv is large
READMES = sorted([ROOT / "README.md", *(path for folder in FOLDERS for path in folder.rglob("README.md"))])


@pytest.mark.parametrize("page", [*PAGES, *READMES], ids=lambda page: str(page.relative_to(ROOT)))
def test_the_rows_of_a_table_have_as_many_cells_as_its_head(page):
    text = re.sub(r"^(`{3,}).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        rows = [re.sub(r"`[^`]*`", "x", row.replace("\\|", "")).count("|") for row in table.splitlines()]
        assert len(set(rows)) == 1 and len(rows) > 2, table
