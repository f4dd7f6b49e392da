"""Draw the figures and tables of sweeps.

Lines are means over seeds, bands and bars one sample standard deviation to each side. Ordered axes run through viridis,
others through the report's colors, each with a marker of its own (`experiments/looks.py`). Each figure is a PNG
and an SVG file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.looks import legend, styles_of
from fedlearn.report.charts.curves import line_of
from fedlearn.report.charts.plots import add_bars, add_line, drawn, whole_ticks
from fedlearn.report.numbers import MeanSd
from fedlearn.report.tables import Table
from fedlearn.runs.files import write_atomically
from fedlearn.sweeps.results import PlannedPoint

MB = 1e6  # bytes
DIVISORS = {"bytes": MB, "hours": 1 / 60}
BLACK = "#000000"


def curve(panel: Any, point: PlannedPoint, *, over: str = "rounds", band: bool = True, **style: Any) -> None:
    """Draw a point's accuracy as a line over an axis of `line_of`; ``"bytes"`` are in MB, ``"hours"`` in minutes.

    Parameters
    ----------
    band
        Whether to show the deviation; with many lines the bands could not be told apart.
    """
    line = line_of(point, "accuracy", over, DIVISORS.get(over, 1))
    if line is not None:
        line = line if band else replace(line, low=(), high=())
        add_line(panel, line, **{"linestyle": "-", "label": None, **style})


def curves(panel: Any, points: Sequence[PlannedPoint], axis: str, *, over: str, **style: Any) -> None:
    """Draw a line for each label of an axis, as `curve` does, with a legend."""
    styles = styles_of([point.labels[axis] for point in points], ordered=False)
    for point in points:
        curve(panel, point, over=over, label=point.labels[axis], **{**styles[point.labels[axis]], **style})
    panel.set_ylabel("test accuracy")
    legend(panel, axis)


def last_accuracy(panel: Any, places: Sequence[float], points: Sequence[PlannedPoint], **style: Any) -> None:
    """Draw the last accuracy of several points over a number, with a bar for each deviation."""
    add_bars(panel, places, [point.over_seeds("accuracy") for point in points], **style)


def by_round(
    folder: Path, name: str, points: Sequence[PlannedPoint], *, panels: str, lines: str, ordered: bool
) -> None:
    """Draw accuracy by round: a panel for each label of one axis, a line for each label of another.

    Parameters
    ----------
    ordered
        Whether the labels of the lines are ordered, and so their colors.
    """
    table = grouped(points, panels)
    styles = styles_of(grouped(points, lines), ordered=ordered)
    with drawn(folder, name, columns=len(table), size=(4.2, 3.9)) as places:
        for panel, (label, mine) in zip(places, table.items(), strict=True):
            for point in mine:
                curve(panel, point, label=point.labels[lines], **styles[point.labels[lines]])
            whole_ticks(panel)
            panel.set(title=f"{panels.replace('_', ' ')}: {label}", xlabel="round")
        places[0].set_ylabel("test accuracy")
        legend(places[-1], lines)


def grouped(points: Iterable[PlannedPoint], axis: str) -> dict[str, list[PlannedPoint]]:
    """Return label on an axis -> points."""
    groups: dict[str, list[PlannedPoint]] = {}
    for point in points:
        groups.setdefault(point.labels[axis], []).append(point)
    return groups


# --- tables -----------------------------------------------------------------------------------------------------------


def write_table(
    points: Sequence[PlannedPoint],
    folder: Path,
    *,
    caption: str,
    plain: tuple[str, str],
    more: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Print a table with a row a point; write it as Markdown and LaTeX.

    Parameters
    ----------
    plain
        An axis and its label of the runs with which the others are compared, seed by seed.
    more
        Further columns after the accuracy and the difference.
    """
    axes, more = list(points[0].labels), {"minus plain": minus_plain(points, *plain), **(more or {})}
    heads = [name.replace("_", " ") for name in (*axes, "seeds", "accuracy", *more, "MB up", "ratio")]
    rows = [
        [
            *point.labels.values(),
            str(len(point.runs)),
            with_deviation(point.over_seeds("accuracy")),
            *(column[place] for column in more.values()),
            f"{point.over_seeds('bytes_up').mean / MB:,.2f}",
            f"{point.over_seeds('compression_ratio').mean:.1f}",
        ]
        for place, point in enumerate(points)
    ]
    table = Table.of_texts("table", caption, heads, rows, words=len(axes))
    table.show()
    write_atomically(folder / "table.md", table.as_markdown().encode())
    write_atomically(folder / "table.tex", table.as_latex(caption).encode())


def minus_plain(points: Sequence[PlannedPoint], axis: str, label: str) -> list[str]:
    """Return the text of each point's difference in accuracy to plain runs: mean and deviation over seeds.

    Plain runs have `label` on `axis`, and the same labels on all others. Where there is none the text is empty.
    """
    plain = {_others(point, axis): point for point in points if point.labels[axis] == label}
    texts = []
    for point in points:
        other = plain.get(_others(point, axis))
        found = differences(point, None if other is point else other)
        texts.append(with_deviation(MeanSd.of(found), sign="+") if found else "")
    return texts


def differences(point: PlannedPoint, other: PlannedPoint | None) -> list[float]:
    """Return the accuracy of a point's runs minus that of another's, for each seed that both have."""
    theirs = {run.summary["seed"]: run.summary["accuracy"] for run in other.runs} if other else {}
    return [run.summary["accuracy"] - theirs[seed] for run in point.runs if (seed := run.summary["seed"]) in theirs]


def _others(point: PlannedPoint, axis: str) -> tuple[str, ...]:
    """Return the labels of a point on all axes but one."""
    return tuple(label for name, label in point.labels.items() if name != axis)


def with_deviation(spread: MeanSd, *, sign: str = "", places: int = 4) -> str:
    """Return a mean and its deviation, which is left out for a single value.

    >>> with_deviation(MeanSd(0.6, 0.1414)), with_deviation(MeanSd(0.5, None), sign="+")
    ('0.6000 ± 0.1414', '+0.5000')
    """
    mean = f"{spread.mean:{sign}.{places}f}"
    return mean if spread.sd is None else f"{mean} ± {spread.sd:.{places}f}"
