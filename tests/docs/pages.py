"""The pages of `docs` as programs: every block is run, in the order in which a reader meets it.

| block | what becomes of it |
|---|---|
| ``python`` | runs; all of one page are one script |
| ``bash`` | runs with ``bash -e``, between them |
| ``{code-block}`` with a ``:caption:`` | is written to the file of that name |
| ``text``, ``{...}`` of Sphinx | is read only |

A page begins in an empty folder. One that takes longer than a few seconds says ``long: true`` in its front matter, one
that starts a federation of processes ``network: true``, one that imports a package that need not be there
``needs: package``.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from importlib.util import find_spec
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
LAST = "--- what the last block prints ---\n"


def says(page: Path, word: str) -> bool:
    """Whether a page says in its front matter that it is "long", or wants a "network"."""
    return re.search(rf"\A---\n(?:.*\n)*?{word}: true\n", page.read_text(encoding="utf-8")) is not None


def missing(page: Path) -> str:
    """Return the package that a page needs, by its front matter, and that is not installed; empty if there is none."""
    needed = re.search(r"\A---\n(?:.*\n)*?needs: (\w+)\n", page.read_text(encoding="utf-8"))
    return needed[1] if needed and find_spec(needed[1]) is None else ""


def program(text: str, kinds: Collection[str] = ()) -> str:
    """Return one script that does what the blocks of a page say; empty if it has none to run.

    Raises
    ------
    ValueError
        If a block is of a kind that nobody runs: it would never be found to be wrong.
    """
    fences = [token for token in MarkdownIt().parse(text) if token.type == "fence"]
    fences = [block for block in fences if not kinds or block.info.strip() in kinds]
    steps = [(block.info.strip(), step) for block in fences if (step := _step(block))]
    last = max((place for place, (kind, _) in enumerate(steps) if kind == "python"), default=-1)
    lines = [f"print({LAST!r}, end='', flush=True)\n" * (place == last) + step for place, (_, step) in enumerate(steps)]
    return "\n".join([START, *lines]) if lines else ""


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


def files_of(text: str) -> dict[str, str]:
    """Return the Python files that a page writes: caption -> text."""
    blocks = text.split("```{code-block} python\n:caption: ")[1:]
    return {block.partition("\n")[0]: block.partition("\n\n")[2].partition("\n```")[0] for block in blocks}


def run(
    page: Path,
    folder: Path,
    *,
    python: str = sys.executable,
    root: str = str(ROOT),
    seconds: float = 900,
    kinds: Collection[str] = (),
) -> str:
    """Run all blocks of a page in a folder, and return what its last python block has printed.

    Parameters
    ----------
    python, root
        The interpreter, and what is put on its path; empty where fedlearn is installed in it.
    kinds
        Of the blocks that are run; unless given, all.

    Raises
    ------
    AssertionError
        With the end of what it printed, where a block fails.
    """
    script = folder / "page.py"
    script.write_text(program(page.read_text(encoding="utf-8"), kinds), encoding="utf-8")
    with subprocess.Popen(
        [python, script.name],
        cwd=folder,
        env=environment(python, root),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=seconds)
        finally:
            with suppress(ProcessLookupError):  # what a page that fails has started, and would have stopped
                os.killpg(process.pid, signal.SIGTERM)
    assert process.returncode == 0, f"{page.name}\n{stdout[-2000:]}\n{stderr[-4000:]}"
    return stdout.rpartition(LAST)[2]


def environment(python: str, root: str) -> Mapping[str, str]:
    """Return the environment in which `python` and the commands beside it are found."""
    path = os.pathsep.join([str(Path(python).parent), os.environ["PATH"]])
    return {**os.environ, "PYTHONPATH": root, "PATH": path}
