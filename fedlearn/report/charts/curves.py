"""Charts of learning: curves of metrics, and the Pareto front of metric against bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fedlearn.core.metric import VIRTUAL_SECONDS, Metric
from fedlearn.report.charts.kinds import Dot, Line, LineChart, ScatterChart, means
from fedlearn.report.numbers import byte_unit
from fedlearn.report.points import PHASES, Point, metrics_of
from fedlearn.report.stored import StoredRun

AXES = ("rounds", "bytes", "seconds", "hours")
EQUAL = 1.01  # ratio of the bytes of two runs below which they count as equal
WIDE = 10  # ratio of the bytes of two runs above which their axis is logarithmic
MOST_PLACES = 2000  # points of all lines of a chart; with more, lines are thinned, so that a page stays small


def curves(points: Sequence[Point], *, by: Sequence[str] = AXES) -> list[LineChart]:
    """Return charts of every metric by round and, if it is evaluated, by bytes and time; none for a single round."""
    charts = []
    runs = [run for point in points for run in point.runs]
    divisor, unit = byte_unit(max((run.total("bytes_up") for run in runs), default=0))
    metrics = metrics_of(runs)
    for metric in metrics.by_interest:
        key, title = metric.name, metric.title
        kinds = {
            "rounds": (f"{key}_by_round", f"{title} by round", "round", "rounds", 1.0),
            "bytes": (f"{key}_by_bytes", f"{title} by uploaded bytes", f"{unit} uploaded", "bytes", divisor),
            "seconds": (f"{key}_by_time", f"{title} by time", "seconds", "seconds", 1.0),
            "hours": (f"{key}_by_virtual_time", f"{title} by virtual time", "virtual hours", "hours", 1.0),
        }
        wanted = by if metric in metrics.evaluated else [axis for axis in by if axis == "rounds"]
        charts += [_curve(points, metric, *kinds[axis]) for axis in wanted]
    return [chart for chart in charts if any(len(line.x) > 1 for line in chart.lines)]


def _curve(
    points: Sequence[Point], metric: Metric, key: str, title: str, x_title: str, axis: str, divisor: float
) -> LineChart:
    lines = [line for point in points if (line := line_of(point, metric.name, axis, divisor)) is not None]
    step = max(1, -(-sum(len(line.x) for line in lines) // MOST_PLACES))
    drawn = tuple(thinned(line, step) for line in lines)
    ends = [line.x[-1] for line in lines]
    is_wide = lines and min(min(line.x) for line in lines) > 0 and max(ends) > WIDE * min(ends)
    ceilings = ceilings_of([run for point in points for run in point.runs], metric.name)
    return LineChart(key, title, x_title, metric.axis_title, drawn, bool(axis == "bytes" and is_wide), ceilings)


def ceilings_of(runs: Sequence[StoredRun], name: str) -> tuple[float, ...]:
    """Return the budgets of runs for a privacy loss, each once, smallest first; empty of any other metric."""
    declared = [metric for run in runs for metric in run.metrics.reported if metric.name == name]
    return tuple(sorted({metric.high for metric in declared if metric.is_privacy_loss and metric.high is not None}))


def line_of(point: Point, metric: str, axis: str, divisor: float = 1) -> Line | None:
    """Return the mean of a point over its seeds, up to the last common round; None without values.

    The band is one sample standard deviation to each side, as in tables.

    Parameters
    ----------
    axis
        The horizontal axis: ``"rounds"``, ``"bytes"`` uploaded, ``"reports"`` that count, ``"seconds"`` or virtual
        ``"hours"`` so far, divided by `divisor`.
    """
    tables = [_measured(run, metric, axis) for run in point.counted]
    length = min(len(table) for table in tables)
    if not length:
        return None
    if len(tables) == 1:
        places, values = zip(*tables[0], strict=True)
        return Line(point.label, point.slot, tuple(place / divisor for place in places), values)
    stacked = np.array([table[:length] for table in tables])  # (seeds, rounds, 2)
    x, y = stacked[:, :, 0].mean(0) / divisor, stacked[:, :, 1]
    mean = y.mean(0)
    deviation = y.std(0, ddof=1)
    return Line(point.label, point.slot, tuple(x), tuple(mean), tuple(mean - deviation), tuple(mean + deviation))


def thinned(line: Line, step: int) -> Line:
    """Return a line of means over each `step` points in a row, placed at the last of these points."""
    if step == 1:
        return line
    y, low, high = (means(values, step) for values in (line.y, line.low, line.high))
    ends = (*line.x[step - 1 :: step], *line.x[-1:])[: len(y)]
    return Line(line.label, line.slot, ends, y, low, high)


def _measured(run: StoredRun, metric: str, axis: str) -> list[tuple[float, float]]:
    """Return (place on the axis, value) for each round in which a metric was measured; a baseline has no bytes."""
    if axis == "bytes" and run.sent("bytes_up") is None:
        return []
    pairs = zip(PLACES[axis](run), run.column(metric), strict=True)
    return [(place, value) for place, value in pairs if place is not None and value is not None]


def _sums(run: StoredRun, column: str) -> list[float | None]:
    return list(np.cumsum([value or 0.0 for value in run.column(column)]))


def seconds_so_far(run: StoredRun) -> list[float | None]:
    """Return the end of each round, in seconds of the phases of committed attempts so far."""
    phases = ([value or 0.0 for value in run.column(f"{phase}_seconds")] for phase in PHASES)
    return list(np.cumsum([sum(each) for each in zip(*phases, strict=True)]))


def virtual_hours(run: StoredRun) -> list[float | None]:
    """Return the end of each round in virtual hours; None for each round of a run in real time."""
    return [None if seconds is None else seconds / 3600 for seconds in run.column(VIRTUAL_SECONDS.name)]


PLACES: Mapping[str, Callable[[StoredRun], list[float | None]]] = {
    "rounds": lambda run: run.column("round_number"),
    "bytes": lambda run: _sums(run, "bytes_up"),
    "reports": lambda run: _sums(run, "reported"),
    "seconds": seconds_so_far,
    "hours": virtual_hours,
}
"""Horizontal axis -> the place of each round of a run."""


def pareto(points: Sequence[Point]) -> ScatterChart | None:
    """Return the chart of the headline metric against uploaded bytes; None with fewer than two points.

    It is None, too, if all points have uploaded the same bytes within one percent: bytes then explain no score.
    """
    metric = metrics_of([run for point in points for run in point.runs]).headline
    if metric is None:
        return None
    placed = []
    for point in points:
        y, x = point.spread(lambda run: run.latest(metric.name)), point.spread(lambda run: run.sent("bytes_up"))
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
    """Return for each place (bytes, value) whether it is on the Pareto front.

    A place is beaten by another with fewer bytes and no worse value, or with as few bytes and a better value. Bytes
    within one percent count as equal.

    >>> front_of([(1, 0.5), (2, 0.6), (3, 0.55), (2.001, 0.7)], lower_is_better=False)
    [True, False, False, True]
    """
    sign = 1 if lower_is_better else -1
    costs = [(x, sign * y) for x, y in places]
    return [not any(_beats(*other, *cost) for other in costs) for cost in costs]


def _beats(x: float, cost: float, other_x: float, other_cost: float) -> bool:
    is_as_small, is_smaller = x <= EQUAL * other_x, EQUAL * x < other_x
    return is_as_small and cost <= other_cost and (is_smaller or cost < other_cost)
