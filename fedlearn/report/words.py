"""The words of page, charts and tables: headings, and names for what events, columns and files call otherwise.

One list, so that the page keeps to the glossary (docs/reference/glossary.md): events and columns have older names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

HEADINGS = {
    "choose": "Runs",
    "statistics": "Statistics of all clients",
    "analysis": "Analysis of all clients",
    "worth": "Contribution of each client",
    "learning": "Learning",
    "pareto": "{metric} vs communication",
    "devices": "Devices",
    "skew": "Label distribution",
    "rounds": "Rounds",
    "nodes": "Clients",
    "gains": "Who gains?",
    "trouble": "What went wrong",
    "classes": "Classes",
    "settings": "Settings",
    "origins": "Command",
    "environment": "Environment",
    "files": "Raw files",
}
"""Section of the page -> its heading."""

WORDS = {
    "reported": "received",
    "refused": "rejected",
    "abandoned": "not completed",
    "too-few-ready": "too few clients ready",
    "answered-late": "answered late",
    "too-far": "too far from the others",
    "evaluation-refused": "evaluation rejected",
}
"""Name of an event or a column -> the word for people."""


def heading(section: str, **parts: str) -> str:
    """Return the ``<h2>`` of a section of the page.

    >>> heading("pareto", metric="Accuracy")
    '<h2>Accuracy vs communication</h2>'
    """
    return f"<h2>{HEADINGS[section].format(**parts)}</h2>"


def word(name: str) -> str:
    """Return the word for people of an event or a column; the name itself where it is the word.

    >>> word("refused"), word("late")
    ('rejected', 'late')
    """
    return WORDS.get(name, name)


@lru_cache(maxsize=4096)
def readable(name: str) -> str:
    """Return the name of a run for people: in the name of a sweep's run, short names of settings.

    >>> readable("strategy.name=fedavg,training.lr=0.1,seed=1"), readable("first try")
    ('strategy=fedavg, lr=0.1, seed=1', 'first try')
    """
    folder, slash, last = name.rpartition("/")
    pairs = [part.partition("=") for part in last.split(",")]
    if not all(equals and re.fullmatch(r"[\w.]+", setting) for setting, equals, _ in pairs):
        return name
    short = short_names([setting for setting, _, _ in pairs])
    return folder + slash + ", ".join(f"{short[setting]}={value}" for setting, _, value in pairs)


def short_names(names: Sequence[str], taken: Sequence[str] = ()) -> dict[str, str]:
    """Return name -> short name of some settings: the last word, or the whole name where that word is not enough.

    Parameters
    ----------
    taken
        Words that mean something else.

    >>> short_names(["model.name", "training.lr", "data.options", "model.options"])
    {'model.name': 'model', 'training.lr': 'lr', 'data.options': 'data.options', 'model.options': 'model.options'}
    """
    short = {name: name.removesuffix(".name").rpartition(".")[2] for name in names}
    count = Counter([*short.values(), *taken])
    return {name: word if count[word] == 1 else name for name, word in short.items()}
