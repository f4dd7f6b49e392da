"""What there is to see in runs, as charts without a form: `svg.py` draws them for the page, `plots.py` for files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedlearn.metrics import Metric
from fedlearn.report.numbers import byte_unit
from fedlearn.report.points import Point, metrics_of
from fedlearn.report.stored import StoredRun

PHASES = ("selection", "training", "evaluation")
FATES = ("reported", "failed", "refused", "late")
EQUAL = 1.01  # times the bytes of another run: too little to draw anything from
WIDE = 10  # times more bytes than another run took: beyond it their axis is logarithmic
MOST_PLACES = 2000  # points of a chart's lines in all; beyond it lines are thinned, so that a page stays small


@dataclass(frozen=True, slots=True)
class Line:
    """One line; with `low` and `high` a band around it. All of one length."""

    label: str
    slot: int
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines over a common axis."""

    key: str  # name of its file
    title: str
    x_title: str
    y_title: str
    lines: tuple[Line, ...]
    log_x: bool = False


@dataclass(frozen=True, slots=True)
class StackedBars:
    """For each round a bar, made of layers from the bottom up."""

    key: str
    title: str
    y_title: str
    rounds: tuple[int, ...]
    layers: dict[str, tuple[float, ...]]  # name -> one height for each round
    goal: tuple[float, ...] = ()  # a line over the bars: what there might have been


@dataclass(frozen=True, slots=True)
class Dot:
    """One point of a scatter chart; its name is written beside it if it is on the front."""

    label: str
    slot: int
    x: float
    y: float
    on_front: bool


@dataclass(frozen=True, slots=True)
class ScatterChart:
    """Dots, those that no other dot beats in both directions joined by a line."""

    key: str
    title: str
    x_title: str
    y_title: str
    dots: tuple[Dot, ...]
    log_x: bool


@dataclass(frozen=True, slots=True)
class HeatMap:
    """How many examples there are in each cell; the colour says it."""

    key: str
    title: str
    x_title: str
    y_title: str
    rows: tuple[str, ...]
    counts: NDArray[np.int64]  # (rows, columns)


Chart = LineChart | StackedBars | ScatterChart | HeatMap


def curves(points: Sequence[Point]) -> list[LineChart]:
    """Return every metric by round and, of evaluations, by uploaded bytes and by time; a single round is no curve."""
    charts = []
    runs = [run for point in points for run in point.runs]
    divisor, unit = byte_unit(max((run.total("bytes_up") for run in runs), default=0))
    metrics = metrics_of(runs)
    for metric in metrics.by_interest:
        key, title = metric.name, metric.title
        charts.append(_curve(points, metric, f"{key}_by_round", f"{title} by round", "round", "rounds", 1))
        if metric in metrics.evaluated:
            by_bytes = f"{title} by uploaded bytes", f"{unit} uploaded", "bytes"
            charts.append(_curve(points, metric, f"{key}_by_bytes", *by_bytes, divisor))
            by_time = f"{title} by time", "seconds", "seconds"
            charts.append(_curve(points, metric, f"{key}_by_time", *by_time, 1))
    return [chart for chart in charts if any(len(line.x) > 1 for line in chart.lines)]


def _curve(
    points: Sequence[Point], metric: Metric, key: str, title: str, x_title: str, axis: str, divisor: float
) -> LineChart:
    lines = [line for point in points if (line := line_of(point, metric.name, axis, divisor)) is not None]
    step = max(1, -(-sum(len(line.x) for line in lines) // MOST_PLACES))
    thinned = tuple(_thinned(line, step) for line in lines)
    ends = [line.x[-1] for line in lines]
    is_wide = lines and min(min(line.x) for line in lines) > 0 and max(ends) > WIDE * min(ends)
    return LineChart(key, title, x_title, metric.axis_title, thinned, bool(axis == "bytes" and is_wide))


def line_of(point: Point, metric: str, axis: str, divisor: float = 1, *, deviation: bool = False) -> Line | None:
    """Return a point's mean over its seeds, as far as all have come, and a band; None where nothing was measured.

    Parameters
    ----------
    axis
        ``"rounds"``, ``"bytes"`` uploaded or ``"seconds"`` so far, divided by `divisor`.
    deviation
        The band is one sample standard deviation to each side, else from the lowest to the highest.
    """
    tables = [_measured(run, metric, axis) for run in point.counted]
    length = min(len(table) for table in tables)
    if not length:
        return None
    stacked = np.array([table[:length] for table in tables])  # (seeds, rounds, 2)
    x, y = stacked[:, :, 0].mean(0) / divisor, stacked[:, :, 1]
    mean = y.mean(0)
    if len(tables) == 1:
        return Line(point.label, point.slot, tuple(x), tuple(mean))
    low, high = (mean - y.std(0, ddof=1), mean + y.std(0, ddof=1)) if deviation else (y.min(0), y.max(0))
    return Line(point.label, point.slot, tuple(x), tuple(mean), tuple(low), tuple(high))


def _measured(run: StoredRun, metric: str, axis: str) -> list[tuple[float, float]]:
    """Return (place on the axis, value) of the rounds in which a metric was measured."""
    places = {"rounds": run.column("round_number"), "bytes": _sums(run, "bytes_up"), "seconds": _seconds(run)}[axis]
    pairs = zip(places, run.column(metric), strict=True)
    return [(place, value) for place, value in pairs if place is not None and value is not None]


def _sums(run: StoredRun, column: str) -> list[float | None]:
    return list(np.cumsum([value or 0.0 for value in run.column(column)]))


def _seconds(run: StoredRun) -> list[float | None]:
    return list(np.cumsum([sum(row.get(f"{phase}_seconds") or 0.0 for phase in PHASES) for row in run.rounds]))


def _thinned(line: Line, step: int) -> Line:
    """Return every step-th place of a line, and its last."""
    if step == 1:
        return line
    kept = sorted({*range(0, len(line.x), step), len(line.x) - 1})
    series = (line.x, line.y, line.low, line.high)
    x, y, low, high = (tuple(each[place] for place in kept) if each else () for each in series)
    return Line(line.label, line.slot, x, y, low, high)


def phases(run: StoredRun) -> StackedBars:
    """Return how long each phase of each round took."""
    layers = {phase: _heights(run, f"{phase}_seconds") for phase in PHASES}
    return StackedBars("phases", "seconds by phase", "seconds", _numbers(run), layers)


def fates(run: StoredRun) -> StackedBars:
    """Return what became of each round's cohort; the cohort itself is the goal."""
    layers = {fate: _heights(run, fate) for fate in FATES}
    return StackedBars("fates", "nodes of the cohort", "nodes", _numbers(run), layers, _heights(run, "cohort"))


def _numbers(run: StoredRun) -> tuple[int, ...]:
    return tuple(int(number or 0) for number in run.column("round_number"))


def _heights(run: StoredRun, column: str) -> tuple[float, ...]:
    return tuple(value or 0.0 for value in run.column(column))


def pareto(points: Sequence[Point]) -> ScatterChart | None:
    """Return the main metric against what was uploaded for it; None with fewer than two points, or of equal sizes.

    Where all have sent the same bytes to one in a hundred, none of what they score was bought with them.
    """
    metric = metrics_of([run for point in points for run in point.runs]).headline
    if metric is None:
        return None
    placed = []
    for point in points:
        y, x = point.spread(lambda run: run.latest(metric.name)), point.spread(lambda run: run.total("bytes_up"))
        if x is not None and x.mean > 0 and y is not None:
            placed.append((point, x.mean, y.mean))
    if len(placed) < 2 or max(x for _, x, _ in placed) <= EQUAL * min(x for _, x, _ in placed):
        return None
    divisor, unit = byte_unit(max(x for _, x, _ in placed))
    front = front_of([(x, y) for _, x, y in placed], lower_is_better=metric.better == "down")
    dots = [Dot(p.label, p.slot, x / divisor, y, on) for (p, x, y), on in zip(placed, front, strict=True)]
    spread = max(x for _, x, _ in placed) / min(x for _, x, _ in placed)
    title = f"{metric.title} against uploaded bytes"
    return ScatterChart("pareto", title, f"{unit} uploaded", metric.axis_title, tuple(dots), log_x=spread > WIDE)


def front_of(places: Sequence[tuple[float, float]], *, lower_is_better: bool) -> list[bool]:
    """Return which places no other beats: fewer bytes and no worse a value, or as few and a better one.

    >>> front_of([(1, 0.5), (2, 0.6), (3, 0.55)], lower_is_better=False)
    [True, True, False]
    """
    sign = 1 if lower_is_better else -1
    costs = [(x, sign * y) for x, y in places]
    return [not any(a <= x and b <= y and (a, b) != (x, y) for a, b in costs) for x, y in costs]
