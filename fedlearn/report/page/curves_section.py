"""The section of curves: one chart for each metric.

The file has the curves by round. The script draws them by bytes or time, smoothed, on log axes, in groups; for it the
section holds the measurements of every run once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from statistics import fmean
from typing import Any

import numpy as np

from fedlearn.core.gains import columns_on_nodes
from fedlearn.core.metric import VIRTUAL_SECONDS, is_of_devices
from fedlearn.report import words
from fedlearn.report.charts import curves as charts
from fedlearn.report.charts.kinds import LineChart
from fedlearn.report.charts.sheet import five_digits
from fedlearn.report.numbers import byte_unit, plain
from fedlearn.report.page.figures import figure, legend, line_class
from fedlearn.report.points import Point, counts_in, differing, metrics_of, shown
from fedlearn.report.stored import StoredRun

AXES = {"rounds": "rounds", "bytes": "bytes", "seconds": "time", "hours": "virtual time"}
TOOLS = (
    '<div class="tools"><span class="switch">{axes}</span>'
    '<label>smoothing <input type="range" name="smooth" min="0" max="0.95" step="0.05" value="0"></label>'
    '{bands}<label><input type="checkbox" name="logy"> log value</label>'
    '<label><input type="checkbox" name="logx"> log axis</label></div>'
)
BANDS = (
    '<label>band <select name="band"><option value="sd">± standard deviation</option>'
    '<option value="ci">95 % confidence interval</option><option value="range">minimum to maximum</option>'
    "</select></label>"
)
SEEDS = (
    'Lines are means over seeds. Bands: <span class="band-words">one standard deviation to each side, as in the tables'
    "</span>. "
)


def heading(runs: Sequence[StoredRun]) -> str:
    """Return the heading with its tools; a live page never replaces them, so that they can be used meanwhile."""
    if not any(len(run.rounds) > 1 for run in runs):
        return ""
    checked = {"rounds": " checked"}
    labels = "".join(
        f'<label><input type="radio" name="axis" value="{axis}"{checked.get(axis, "")}><span>{word}</span></label>'
        for axis, word in AXES.items()
        if axis != "hours" or any(any(hours is not None for hours in charts.virtual_hours(run)) for run in runs)
    )
    return f"{words.heading('learning')}{TOOLS.format(axes=labels, bands=BANDS if len(runs) > 1 else '')}"


def curves(points: Sequence[Point], drawn: Sequence[LineChart]) -> str:
    """Return the charts by round, without those of devices and of the spread over clients."""
    hidden = spread_names([run for point in points for run in point.runs])
    return grid_of(points, [c for c in drawn if not (metric_of(c) in hidden or is_of_devices(metric_of(c)))])


def devices(points: Sequence[Point]) -> str:
    """Return the section of what devices did, by round, of the runs that have devices."""
    timed = [point for point in points if any(run.latest(VIRTUAL_SECONDS.name) is not None for run in point.runs)]
    drawn = [chart for chart in charts.curves(timed, by=["rounds"]) if is_of_devices(metric_of(chart))]
    return f"{words.heading('devices')}{grid_of(timed, drawn)}" if drawn else ""


def spread_names(runs: Sequence[StoredRun]) -> dict[str, str]:
    """Return name -> title of the columns that describe the headline metric's spread over clients."""
    metrics = metrics_of(runs)
    found = columns_on_nodes(metrics.of_model) if metrics.of_model is not None else ()
    return {metric.name: metric.title for metric in found if metric.name in metrics.columns}


def grid_of(points: Sequence[Point], drawn: Sequence[LineChart], *, note: str = "", parted: float | None = None) -> str:
    """Return a grid of charts with the data from which the script draws them.

    Parameters
    ----------
    note
        A line above the charts.
    parted
        The round in which two runs part, which the script marks.
    """
    if not drawn:
        return ""
    slots = {line.slot for chart in drawn for line in chart.lines}
    points = [point for point in points if point.slot in slots]
    runs = [run for point in points for run in point.runs]
    loss = metrics_of(runs).privacy_loss
    if loss is not None and loss.name in map(metric_of, drawn):
        note = f"{note} {loss.title}: {counts_in(runs)}."
        note += " The dashed line is the budget." if charts.ceilings_of(runs, loss.name) else ""
    seeds = SEEDS if any(len(point.runs) > 1 for point in points) else ""
    said = f'<p class="note">{seeds}{escape(note.strip())}</p>' if seeds or note else ""
    names = legend([(point.label, line_class(point.slot)) for point in points])
    figures = "".join(  # their lines are named once, above all of them
        figure(chart, data={"metric": metric_of(chart), "y": chart.y_title}, named=False) for chart in drawn
    )
    measured = data_of(points, [metric_of(chart) for chart in drawn])
    data = json.dumps(measured | ({"parted": parted} if parted else {}), separators=(",", ":"))
    return f'{said}<div class="names">{names}</div><div class="grid-3" data-curves="{escape(data)}">{figures}</div>'


def metric_of(chart: LineChart) -> str:
    """Return the name of the metric that a chart shows by round."""
    return chart.key.removesuffix("_by_round")


def data_of(points: Sequence[Point], metrics: Sequence[str]) -> dict[str, Any]:
    """Return the data of the script: for each run the places of its rounds on each axis, and its metrics."""
    runs = [run for point in points for run in point.runs]
    divisor, unit = byte_unit(max((run.total("bytes_up") for run in runs), default=0))
    step = max(1, -(-sum(len(run.rounds) for run in runs) // charts.MOST_PLACES))
    names = differing(runs)
    return {
        "unit": unit,
        "metrics": list(metrics),
        "ceilings": [charts.ceilings_of(runs, metric) for metric in metrics],
        "runs": [
            {
                "name": run.name,
                "point": point.label,
                "slot": point.slot,
                "done": run.status == "completed",
                "settings": {name: shown(run.settings.get(name)) for name in names},
                **_places(run, kept := _kept(run, metrics, step), divisor),
                "values": [_drawn_together(run.column(metric), kept, step) for metric in metrics],
            }
            for point in points
            for run in point.runs
        ],
    }


def _kept(run: StoredRun, metrics: Sequence[str], step: int) -> list[int]:
    """Return the indices of rounds that are drawn: all, or every step-th evaluated round and the last one."""
    if step == 1:
        return list(range(len(run.rounds)))
    evaluated = [m.name for m in run.metrics.evaluated] or list(metrics)
    full = [place for place, row in enumerate(run.rounds) if any(row.get(name) is not None for name in evaluated)]
    return sorted({*full[step - 1 :: step], *full[-1:]})


def _places(run: StoredRun, kept: Sequence[int], divisor: float) -> dict[str, list[float | None]]:
    sent = np.cumsum([value or 0.0 for value in run.column("bytes_up")]) / divisor
    rounds = run.column("round_number")
    return {
        "rounds": [plain(rounds[place]) for place in kept],
        "bytes": _short(sent.tolist(), kept),
        "seconds": _short(charts.seconds_so_far(run), kept),
        "hours": _short(charts.virtual_hours(run), kept),
    }


def _drawn_together(values: Sequence[float | None], kept: Sequence[int], step: int) -> list[float | None]:
    """Return the mean of the values since the kept round before, for each kept round; None without values."""
    if step == 1:
        return _short(values, kept)
    begins = [0, *(place + 1 for place in kept[:-1])]
    parts = ([v for v in values[begin : end + 1] if v is not None] for begin, end in zip(begins, kept, strict=True))
    return [five_digits(fmean(part)) if part else None for part in parts]


def _short(values: Sequence[float | None], kept: Sequence[int]) -> list[float | None]:
    """Return the values at the kept indices with five digits, whole numbers as int."""
    return [None if (value := values[place]) is None else five_digits(value) for place in kept]
