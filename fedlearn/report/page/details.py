"""The later sections of the page: failures, origins, settings, environment, raw files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from fedlearn.config import RunConfig, to_flower
from fedlearn.report.numbers import size
from fedlearn.report.page.settings_lookup import meaning
from fedlearn.report.points import differing, shown
from fedlearn.report.stored import StoredRun
from fedlearn.report.words import heading, word

MOST_REASONS = 40
NUMBER = re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?")
ORIGIN = {"command": "command", "commit": "commit of its folder", "fedlearn_commit": "commit of fedlearn"}
OF_ONE_RUN = (*ORIGIN, "folder")  # entries of an environment that tell nothing of the machine

Link = Callable[[StoredRun, str], str]
"""A function of a run and the name of one of its files that returns the file's address, as seen from the page."""


def trouble(runs: Sequence[StoredRun]) -> str:
    """Return the section of failures in rounds, the most frequent first."""
    rows = [(count, run.label, word(what), reason) for run in runs for what, reason, count in _alike(run)]
    rows.sort(key=lambda row: -row[0])
    if not rows:
        return ""
    body = "".join(
        f'<tr><td class="num">{count}</td><td>{escape(name)}</td><td>{escape(what)}</td><td>{escape(reason)}</td></tr>'
        for count, name, what, reason in rows[:MOST_REASONS]
    )
    more = f"<p>{len(rows) - MOST_REASONS} further reasons are in the logs.</p>" if len(rows) > MOST_REASONS else ""
    head = '<tr><th class="num">times</th><th>run</th><th>what</th><th>reason</th></tr>'
    table = f'<div class="wide words"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'
    return f"{heading('trouble')}{table}{more}"


def _alike(run: StoredRun) -> Iterator[tuple[str, str, int]]:
    """Yield (what, reason, how often) of failures; reasons that differ by their numbers alone are one."""
    kinds: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for (what, reason), count in run.log.wrong.items():
        kinds.setdefault((what, NUMBER.sub("0", reason)), []).append((reason, count))
    for (what, _), reasons in kinds.items():
        others = f" (and {len(reasons) - 1} with other numbers)" if len(reasons) > 1 else ""
        yield what, reasons[0][0] + others, sum(count for _, count in reasons)


def settings(runs: Sequence[StoredRun]) -> str:
    """Return the section of settings that all runs share; settings that differ are in the table of runs."""
    different = set(differing(runs)) if len(runs) > 1 else set()
    shared = {k: v for run in runs for k, v in run.settings.items() if k not in different and k != "out"}
    if not shared:
        return ""
    defaults = to_flower(RunConfig())
    chosen = {k: v for k, v in shared.items() if v != defaults.get(k)}
    few = f'<div class="columns">{pairs(chosen)}</div>' if chosen else "<p>All are the defaults.</p>"
    whole = f'<summary>All {len(shared)}, with defaults</summary><div class="columns">{pairs(shared)}</div>'
    shared_by_all = '<p class="note">The settings that all runs share.</p>' if len(runs) > 1 else ""
    return f'{heading("settings")}{shared_by_all}{few}<details id="all-settings">{whole}</details>'


def environment(runs: Sequence[StoredRun]) -> str:
    """Return the section of versions and machines, each different environment once."""
    kinds: dict[str, tuple[Mapping[str, Any], list[str]]] = {}
    for run in runs:
        machine = {k: v for k, v in run.environment.items() if k not in OF_ONE_RUN and v not in ("", None, [])}
        if machine:
            kinds.setdefault(repr(machine), (machine, []))[1].append(run.label)
    parts = []
    for environment, names in kinds.values():
        packages = environment.get("packages")
        flat = {k: v for k, v in environment.items() if k != "packages"}
        flat |= packages if isinstance(packages, dict) else {}
        whose = f'<p class="note">{escape(", ".join(names))}</p>' if len(kinds) > 1 else ""
        parts.append(f'{whose}<div class="columns">{pairs(flat)}</div>')
    return f"{heading('environment')}{''.join(parts)}" if parts else ""


def origins(runs: Sequence[StoredRun]) -> str:
    """Return the section of origins: command line of each run, and commits of its folder and of fedlearn."""
    rows = []
    for run in runs:
        table = {title: run.environment.get(key) for key, title in ORIGIN.items()}
        known = {title: value for title, value in table.items() if value}
        name = f"<p>{escape(run.label)}</p>" if len(runs) > 1 else ""
        lines = "".join(f"<div><dt>{t}</dt><dd><code>{escape(shown(v))}</code></dd></div>" for t, v in known.items())
        rows.append(f'<div data-of="{escape(run.name)}">{name}<dl class="origin">{lines}</dl></div>' if known else "")
    if not any(rows):
        return ""
    inside = "".join(rows)
    many = f'<details id="all-origins"><summary>of {len(runs)} runs</summary>{inside}</details>'
    return f"{heading('origins')}{many if len(runs) > 3 else inside}"


def pairs(table: Mapping[str, Any]) -> str:
    """Return names and values in two columns, with the meaning of a setting on hover over its name."""
    rows = "".join(f"<tr>{_name(str(k))}<td>{escape(shown(v))}</td></tr>" for k, v in table.items())
    return f'<table class="pairs"><tbody>{rows}</tbody></table>'


def _name(name: str) -> str:
    said = f' title="{escape(meaning(name))}"' if meaning(name) else ""
    return f"<th{said}>{escape(name)}</th>"


def files(runs: Sequence[StoredRun], link: Link) -> str:
    """Return the section of links to the raw files, folded away if there are many runs."""
    parts = []
    for run in runs:
        items = "".join(
            f'<li><a href="{escape(link(run, name))}">{escape(name)}</a> <small>{size(count)}</small></li>'
            for name, count in run.files.items()
        )
        name = f"<h3>{escape(run.label)}</h3>" if len(runs) > 1 else ""
        parts.append(f'{name}<ul class="files">{items}</ul>')
    if not parts:
        return ""
    inside = "".join(parts)
    whole = (
        f'<details id="all-files"><summary>of {len(parts)} runs</summary>{inside}</details>'
        if len(parts) > 3
        else inside
    )
    return f"{heading('files')}{whole}"
