"""Notebooks of tutorials are valid, have every block of their page, and run in a kernel in an empty folder."""

from __future__ import annotations

import re

import nbformat
import pytest

from docs.notebooks import notebook, pages
from tests.docs.notebooks import Executed

PAGES = [page for page in pages() if page.stem != "first_ten_minutes"]  # its own test runs it


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_notebook_is_valid_and_has_every_block(page):
    made, text = notebook(page), page.read_text(encoding="utf-8")
    nbformat.validate(made)
    sources = [cell["source"] for cell in made["cells"] if cell["cell_type"] == "code"]
    assert len(sources) == len(re.findall(r"^```(?:python|bash|\{code-block\})", text, re.MULTILINE))
    assert all(re.sub(r"\A%%(?:bash|writefile) .*\n", "", source) in text for source in sources)


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_runs(page, tmp_path):
    done = Executed(page, tmp_path)
    assert all(cell.execution_count for cell in done.cells)


def test_a_page_becomes_cells_outputs_and_links_into_the_repository(tmp_path, monkeypatch):
    monkeypatch.setattr("docs.notebooks.ROOT", tmp_path)
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text(
        "---\nnotebook: true\n---\n\n# T\n\n[a](../b.md#c), ![d](e.svg), [f](https://g.org)\n\n"
        "```{code-block} toml\n:caption: h.toml\n\ni = 1\n```\n\n```bash\ncat h.toml\n```\n\n```text\ni = 1\n```\n\n"
        "```python\nprint(2)\n```\n\nprints\n\n```text\n2\n```\n"
    )
    cells = notebook(page)["cells"]
    source = "https://github.com/fedlearn/fedlearn"
    assert [cell["source"] for cell in cells] == [
        f"# T\n\n[a]({source}/blob/main/b.md#c), ![d]({source}/raw/main/docs/e.svg), [f](https://g.org)",
        *("%%writefile h.toml\ni = 1", "%%bash -e\ncat h.toml", "print(2)", "prints\n\n```text\n2\n```"),
    ]
    assert [cell.get("outputs") for cell in cells if cell.get("outputs")] == [
        [{"output_type": "stream", "name": "stdout", "text": "i = 1\n"}]
    ]
