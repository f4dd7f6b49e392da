"""Make the pages of all settings and all commands from the code, each time that the site is made."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx

from fedlearn.config import RunConfig, to_flower
from fedlearn.config.names import described

FOLDER = Path(__file__).parent / "reference" / "generated"


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls this before it looks for pages."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "settings.md").write_text("\n".join(settings_page()), encoding="utf-8")
    (FOLDER / "commands.md").write_text("\n".join(commands_page()), encoding="utf-8")
    app.connect("source-read", _in_the_order_of_its_links)
    return {"parallel_read_safe": True}


def _in_the_order_of_its_links(app: Sphinx, name: str, source: list[str]) -> None:
    """Give the index of how-tos a table of contents of the pages that it links to, in its order."""
    source[0] = source[0].replace("](read_a_forest.md)", "]")  # until its branch is merged
    if name == "howto/index":
        pages = re.findall(r"\]\((\w+)\.md\)", source[0])
        source[0] += "\n".join(["", "```{toctree}", ":hidden:", "", *pages, "```", ""])


def settings_page() -> Iterator[str]:
    """Yield the lines of the list of settings, a table for each of their tables."""
    yield "# Settings\n"
    yield "This page lists every setting with its default and meaning. Set one by `--set key=value`, by a flag, or in "
    yield "a file for `--config`; `fedlearn settings` prints this list as such a file."
    table = None
    for name, value in to_flower(RunConfig()).items():
        section = name.rpartition(".")[0]
        if section != table:
            table = section
            yield f"\n## {section or 'the run'}\n\n| key | default | meaning |\n|---|---|---|"
        meaning = described(name)[0].replace("|", "\\|").replace("\n", " ")
        yield f"| `{name}` | `{json.dumps(value)}` | {meaning} |"


def commands_page() -> Iterator[str]:
    """Yield the lines of the help of each command."""
    yield "# Commands\n"
    yield "This page shows the help of every command.\n"
    from fedlearn.cli import app

    names = [info.name or info.callback.__name__ for info in app.registered_commands if info.callback]
    for name in names:
        shown = subprocess.run(
            [sys.executable, "-m", "fedlearn", name, "--help"],
            env=os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        yield f"## fedlearn {name}\n\n```text\n{shown.stdout.strip()}\n```\n"
