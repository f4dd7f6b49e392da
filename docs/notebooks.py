"""Make a notebook of each tutorial whose front matter says ``notebook: true``; `make docs` stores them.

A block of Python is a cell, one of bash a cell with ``%%bash``, a file a cell with ``%%writefile``. A ``text`` block
below one of them is its output. All else is text, with links into the repository.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
SOURCE = "https://github.com/fedlearn/fedlearn"
FRONT = re.compile(r"\A---\n((?:.*\n)*?)---\n")
RELATIVE = re.compile(r"(!?\[[^\]]*\])\((?!https?://|#)([^)\s]+)\)")
CAPTION = re.compile(r":caption: (\S+)\n+")
PYTHON = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def is_notebook(text: str) -> bool:
    """Return whether the front matter of a page asks for a notebook."""
    front = FRONT.match(text)
    return front is not None and "notebook: true" in front[1].splitlines()


def pages() -> list[Path]:
    """Return the tutorials that are notebooks, too."""
    found = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
    return [page for page in found if is_notebook(page.read_text(encoding="utf-8"))]


def notebook(page: Path) -> dict[str, Any]:
    """Return a page as a notebook of version 4.4 of its format."""
    text = FRONT.sub("", page.read_text(encoding="utf-8")).lstrip()
    lines, cells, read = text.splitlines(keepends=True), [], 0
    for fence in MarkdownIt().parse(text):
        if fence.type != "fence" or fence.map is None:
            continue
        begin, end = fence.map
        before = "".join(lines[read:begin]).strip()
        if fence.info.strip() == "text" and not before and cells:
            cells[-1]["outputs"] += [{"output_type": "stream", "name": "stdout", "text": fence.content}]
            read = end
        elif source := _source(fence.info.strip(), fence.content):
            cells += [*_text(before, page), _code(source)]
            read = end
    cells += _text("".join(lines[read:]).strip(), page)
    return {"cells": cells, "metadata": PYTHON, "nbformat": 4, "nbformat_minor": 4}


def _source(kind: str, content: str) -> str:
    if kind == "bash":
        return f"%%bash -e\n{content}"
    if caption := CAPTION.match(content):
        return f"%%writefile {caption[1]}\n{content[caption.end() :]}"
    return content if kind == "python" else ""


def _code(source: str) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source.rstrip("\n")}


def _text(text: str, page: Path) -> list[dict[str, Any]]:
    folder = page.parent.relative_to(ROOT)

    def lead(link: re.Match[str]) -> str:
        kind = "raw" if link[1].startswith("!") else "blob"
        return f"{link[1]}({SOURCE}/{kind}/main/{os.path.normpath(folder / link[2])})"

    return [{"cell_type": "markdown", "metadata": {}, "source": RELATIVE.sub(lead, text)}] * bool(text)
