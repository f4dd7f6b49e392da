"""The pages of `docs` as programs: every block is run, in the order in which a reader meets it.

| block | what becomes of it |
|---|---|
| ``python`` | runs; all of one page are one script |
| ``bash`` | runs with ``bash -e``, between them |
| ``{code-block}`` with a ``:caption:`` | is written to the file of that name |
| ``text``, ``{...}`` of Sphinx | is read only |

A page begins in an empty folder. One that takes longer than a few seconds says ``long: true`` in its front matter.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
READ_ONLY = ("text", "{")
START = """
import subprocess, pathlib
def _bash(lines): subprocess.run(["bash", "-e", "-c", lines], check=True)
def _write(name, text):
    pathlib.Path(name).parent.mkdir(parents=True, exist_ok=True); pathlib.Path(name).write_text(text)
"""


def is_long(page: Path) -> bool:
    """Whether a page says that it takes long."""
    return re.search(r"\A---\n(?:.*\n)*?long: true\n", page.read_text()) is not None


def program(text: str) -> str:
    """Return one script that does what the blocks of a page say; empty if it has none to run.

    Raises
    ------
    ValueError
        If a block is of a kind that nobody runs: it would never be found to be wrong.
    """
    fences = [token for token in MarkdownIt().parse(text) if token.type == "fence"]
    steps = [step for step in map(_step, fences) if step]
    return "\n".join([START, *steps]) if steps else ""


def _step(block: Token) -> str:
    kind = block.info.strip()
    if kind == "python":
        return block.content
    if kind == "bash":
        return f"_bash({block.content!r})"
    if kind.startswith("{code-block}"):
        caption = re.match(r":caption:\s*(\S+)\n+", block.content)
        if caption:
            return f"_write({caption[1]!r}, {block.content[caption.end() :]!r})"
    elif kind.startswith(READ_ONLY):
        return ""
    raise ValueError(f"a block of kind {kind!r}: write python, bash, text, or {{code-block}} with a :caption:")


def run(page: Path, folder: Path, seconds: float = 600) -> None:
    """Run all blocks of a page in a folder; AssertionError with the end of what it printed where one fails."""
    script = folder / "page.py"
    script.write_text(program(page.read_text()))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"PYTHONPATH": str(ROOT), "PATH": path}
    done = subprocess.run(
        [sys.executable, script.name], cwd=folder, env=env, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, f"{page.name}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
