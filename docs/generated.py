"""Make the pages of settings, commands and rules, and notebooks of tutorials, each time that the site is made."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING

from notebooks import is_notebook, notebook, pages
from typer.testing import CliRunner

from fedlearn.commands.settings import allowed_of, flags
from fedlearn.config import RunConfig, to_flower
from fedlearn.config.names import described
from server.planning.plan_rules import rules

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FOLDER = Path(__file__).parent / "reference" / "generated"
HOWTO = Path(__file__).parent / "howto" / "index.md"
PLAIN = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls this before it looks for pages."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "settings.md").write_text("\n".join(settings_page()), encoding="utf-8")
    (FOLDER / "what_goes_with_what.md").write_text("\n".join(rules_page()), encoding="utf-8")
    (FOLDER / "commands.md").write_text("\n".join(commands_page()), encoding="utf-8")
    for page in pages():
        (FOLDER / f"{page.stem}.ipynb").write_text(json.dumps(notebook(page), indent=1), encoding="utf-8")
    app.connect("source-read", _in_the_order_of_its_links)
    app.connect("source-read", _with_its_notebook)
    return {"parallel_read_safe": True}


def _in_the_order_of_its_links(app: Sphinx, name: str, source: list[str]) -> None:
    """Give the first page a table of contents of the how-tos, by the groups of their index: the side bar shows it."""
    if name == "index":
        groups = (HOWTO.read_text(encoding="utf-8")).split("\n## ")[1:]
        source[0] = source[0].replace("<!-- how-tos -->", "\n".join(map(_contents, groups)))


def _with_its_notebook(app: Sphinx, name: str, source: list[str]) -> None:
    """Link a tutorial to its notebook, below its title."""
    if is_notebook(source[0]):
        link = f"\n[Download this page as a notebook](../reference/generated/{Path(name).name}.ipynb)\n"
        source[0] = re.sub(r"^# .*\n", rf"\g<0>{link}", source[0], count=1, flags=re.MULTILINE)


def _contents(group: str) -> str:
    pages = re.findall(r"^- \[(.*?)\]\((\w+)\.md\)", group, re.MULTILINE)
    caption = group.partition("\n")[0]
    lines = [
        "```{toctree}",
        ":hidden:",
        f":caption: {caption}",
        "",
        *(f"{title} <howto/{page}>" for title, page in pages),
    ]
    return "\n".join([*lines, "```", ""])


def settings_page() -> Iterator[str]:
    """Yield the lines of the list of settings, a table for each of their tables."""
    yield "# Settings\n"
    yield "This page lists every setting with its flag, allowed values, default and meaning. Set one by its flag, by "
    yield "`--set key=value`, or in a file for `--config`; `fedlearn settings KEY` explains one. Link to a setting "
    yield "by its name: `settings.html#training.lr`."
    table = None
    by_name = flags()
    for name, value in to_flower(RunConfig()).items():
        section = name.rpartition(".")[0]
        if section != table:
            table = section
            yield f"\n## {section or 'the run'}\n\n| key | flag | allowed | default | meaning |\n|---|---|---|---|---|"
        flag = f"`{by_name[name].name}`" if name in by_name else ""
        meaning, allowed = (
            text.replace("|", "\\|").replace("\n", " ") for text in (described(name)[0], allowed_of(name))
        )
        yield f'| <a id="{name}"></a>`{name}` | {flag} | {allowed} | `{json.dumps(value)}` | {meaning} |'


def rules_page() -> Iterator[str]:
    """Yield the lines of the table of what is refused, by tables of settings; what stands in several features once."""
    yield "# What goes with what\n"
    yield "A run that breaks a row of these tables ends before round 1, with exit code 2 and a line that names the "
    yield "setting, the reason, and what to do instead. Find the setting that was refused; the second column names "
    yield "what it does not go with, where the reason does not. Words in *italics* stand for values of the run."
    rows: dict[tuple[str, str, str], list[str]] = {}
    for rule in rules():
        said = rows.setdefault((rule.setting, in_words(rule.because), in_words(rule.instead)), [])
        said.append(in_words(rule.before.removeprefix("with ").strip()))
    table = None
    for (setting, because, instead), beside in sorted(rows.items(), key=lambda row: row[0][0]):
        if setting.partition(".")[0] != table:
            table = setting.partition(".")[0]
            yield f"\n## {table}\n\n| setting | does not go with | because | instead |\n|---|---|---|---|"
        yield f"| `{setting}` | {'; '.join(filter(None, dict.fromkeys(beside)))} | {because} | {instead} |"


def in_words(text: str) -> str:
    """Return a text of a rule with the names of settings as code, and with words for the values of a run."""
    settings, found = to_flower(RunConfig()), ""
    for literal, name, _, _ in Formatter().parse(text):
        quoted = re.sub(r"'([\w.:-]+)'", r"`\1`", literal)
        found += re.sub(r"\w+\.\w+", lambda word: f"`{word[0]}`" if word[0] in settings else word[0], quoted)
        if name:
            setting = name.removeprefix("config.")
            is_named = setting in settings and not literal.endswith("= ")
            words = "its value" if name == "value" or setting in settings else setting.rpartition(".")[2]
            found += f"`{setting}`" if is_named else f"*{words.replace('_', ' ')}*"
    return found.replace("|", "\\|")


def commands_page() -> Iterator[str]:
    """Yield the lines of the help of each command."""
    yield "# Commands\n"
    yield "This page shows the help of every command.\n"
    from fedlearn.cli import app
    from fedlearn.commands.brief import Brief

    commands = [(info.name or info.callback.__name__, info.cls) for info in app.registered_commands if info.callback]
    for name, kind in commands:
        asked = [name, "--help-all" if kind is Brief else "--help"]
        shown = CliRunner().invoke(app, asked, prog_name="fedlearn", env=PLAIN, catch_exceptions=False)
        if shown.exit_code:
            raise RuntimeError(f"fedlearn {' '.join(asked)}: {shown.output}")
        yield f"## fedlearn {name}\n\n```text\n{shown.stdout.strip()}\n```\n"
