"""Chart which client has which labels, from the counts that a run stored when it dealt its examples (dealt.json)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fedlearn.core.client_facts import CLASS, EXAMPLE, Dealt
from fedlearn.core.errors import UsageError, said
from fedlearn.report.charts.kinds import HeatMap
from fedlearn.report.points import shown
from fedlearn.report.stored import StoredRun
from fedlearn.runs.classes_json import names_of
from fedlearn.runs.label_counts import read_dealt
from fedlearn.runs.public_data import read_spec

MOST_NODES = 100  # columns of the chart


def skew_of(run: StoredRun) -> HeatMap | str:
    """Return the chart, or in words why there is none; empty words where the run stored no counts."""
    try:
        dealt = read_dealt(run.folder)
    except (OSError, ValueError) as error:
        return f"dealt.json: {getattr(error, 'strerror', None) or said(error)}"
    if dealt is None:
        return ""
    return chart_of(dealt, run.settings, lambda: read_spec(run.folder).class_names)


def chart_of(dealt: Dealt, settings: Mapping[str, object], class_names: Callable[[], Sequence[str]]) -> HeatMap:
    """Return the chart of counts.

    Parameters
    ----------
    settings
        The flat settings of the run: dotted name -> value.
    class_names
        Returns the names of the classes; asked only where the rows of the counts are classes.
    """
    counts = np.array(dealt.counts, np.int64)[:, :MOST_NODES]
    drawn, get = counts.shape[1], settings.get
    of_all = f"first {drawn} of {dealt.nodes} clients" if dealt.nodes > drawn else "client"
    alpha = f", alpha {shown(get('data.alpha'))}" if get("data.partition") == "dirichlet" else ""
    about = f"{_short(get('data.dataset'))}, {_short(get('data.partition'))}{alpha}, seed {get('seed')}"
    return HeatMap("skew", f"{dealt.what} by client: {about}", of_all, dealt.what, _rows(dealt, class_names), counts)


def _rows(dealt: Dealt, class_names: Callable[[], Sequence[str]]) -> tuple[str, ...]:
    """Return the names of the labels, from the public facts of the data; numbers where there are none."""
    numbers = tuple(str(number) for number in range(len(dealt.counts)))
    if dealt.what == EXAMPLE and len(numbers) == 1:
        return ("all",)
    if dealt.what != CLASS:
        return numbers
    try:
        names = tuple(names_of(class_names()))
    except UsageError:
        return numbers
    return (*names, *numbers[len(names) :])[: len(numbers)]


def _short(name: object) -> str:
    """Return the last part of a path, the name of an object without its fingerprint; other names as they are.

    >>> _short("/home/me/photos"), _short("object:LETTERS-0a1b2c"), _short("my.module:load"), _short("digits")
    ('photos', 'LETTERS', 'my.module:load', 'digits')
    """
    text = str(name)
    if text.startswith("object:"):
        return text.removeprefix("object:").rpartition("-")[0] or text
    return text.rstrip("/").rpartition("/")[2]
