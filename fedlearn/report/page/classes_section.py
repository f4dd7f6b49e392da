"""The section of classes: the confusion matrix of a run's model, and a table of its classes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from fedlearn.report.charts.kinds import HeatMap
from fedlearn.report.numbers import number
from fedlearn.report.page.figures import figure
from fedlearn.report.stored import StoredRun
from fedlearn.report.tables import Column, Table
from fedlearn.report.words import heading
from fedlearn.runs.classes_json import ClassResults, Confusion, read_classes

MOST_RUNS = 3  # with more runs there is no section
MOST_ROWS = 12  # classes in the table: of more classes, those with the lowest recall


def classes(runs: Sequence[StoredRun]) -> str:
    """Return the section: the confusion of the final and of the best model of each of up to three runs."""
    if len(runs) > MOST_RUNS:
        return ""
    parts = [_of_run(run, named=len(runs) > 1) for run in runs]
    return f"{heading('classes')}{''.join(parts)}" if any(parts) else ""


def _of_run(run: StoredRun, *, named: bool) -> str:
    try:
        found = read_classes(run.folder)
    except (OSError, ValueError) as error:
        return f'<p class="problem">{escape(run.label)}: classes.json: {escape(_reason(error))}</p>'
    if found is None:
        return ""
    name = f'<h3 class="run">{escape(run.label)}</h3>' if named else ""
    best = found.best if found.best is not None and found.best.round_number != found.final.round_number else None
    more = _folded(found, best, run) if best is not None else ""
    return f'<div data-of="{escape(run.name)}">{name}{_both(found, found.final, "final")}{more}</div>'


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _folded(found: ClassResults, best: Confusion, run: StoredRun) -> str:
    head = f"<summary>The best model, of round {best.round_number}</summary>"
    return f'<details id="best-{escape(run.name)}">{head}{_both(found, best, "best")}</details>'


def _both(found: ClassResults, confusion: Confusion, which: str) -> str:
    chart = chart_of(found, confusion, which)
    table = _table(found, confusion)
    return f'<div class="grid-2">{figure(chart)}<div>{table}</div></div>'


def chart_of(found: ClassResults, confusion: Confusion, which: str) -> HeatMap:
    """Return the matrix as a chart; the color is the share of the row."""
    names = tuple(found.classes)
    title = f"confusion matrix of the {which} model (round {confusion.round_number})"
    return HeatMap(f"confusion_{which}", title, "predicted class", "true class", names, confusion.counts, columns=names)


def confusions(run: StoredRun) -> list[HeatMap]:
    """Return the confusion matrices of a run as charts; empty if they cannot be read."""
    try:
        found = read_classes(run.folder)
    except (OSError, ValueError):
        return []
    if found is None:
        return []
    both = {"final": found.final, "best": found.best}
    return [chart_of(found, each, which) for which, each in both.items() if each is not None]


def _table(found: ClassResults, confusion: Confusion) -> str:
    """Return the table of classes, each with its recall, its precision and its most frequent confusion."""
    counts = confusion.counts
    right, examples, taken = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    wrong = counts - np.diag(right)
    shares = right / np.maximum(examples, 1)
    order = np.argsort(np.where(examples > 0, shares, np.inf), kind="stable")[:MOST_ROWS]
    columns = (
        Column("class", "class", str, numeric=False),
        Column("examples", "examples", str),
        Column("recall", "recall", number),
        Column("precision", "precision", number),
        Column("confused", "most confused with", str, numeric=False),
    )
    rows = tuple(
        (
            found.classes[k],
            int(examples[k]),
            float(shares[k]) if examples[k] else None,
            float(right[k] / taken[k]) if taken[k] else None,
            f"{found.classes[int(wrong[k].argmax())]} ({wrong[k].max()})" if wrong[k].any() else None,
        )
        for k in order.tolist()
    )
    few = f'<p class="note">The {MOST_ROWS} of {len(found.classes)} classes with the lowest recall.</p>'
    return Table("classes", "Classes", columns, rows).as_html() + (few if len(found.classes) > MOST_ROWS else "")
