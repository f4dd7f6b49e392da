"""The best point of a sweep: chosen by validation rows where there are some, reported on test rows, and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from fedlearn.core.metric import PRIVATE_ROWS, Metric
from fedlearn.report.chosen import ONCE
from fedlearn.report.numbers import number_spread
from fedlearn.report.paired import CORRECTION, Difference, Scores, differences
from fedlearn.report.points import Point
from fedlearn.report.stored import StoredRun

BETTER_BY = "the best is better by"
NOT_CHOSEN = "no point is called the best: a private run chooses by public rows only, and the test rows are private"


@dataclass(frozen=True, slots=True)
class Choice:
    """The point that a sweep chooses.

    Parameters
    ----------
    best, place
        The point, and its place among the points.
    judge
        The metric that chooses: its mean over seeds, at the end of the runs.
    reported
        The metric that is reported and compared: of the test rows.
    rows
        The rows that have chosen.
    among
        How many points there were to choose from.
    differences
        How much better the best is than each point, in the order of the points; None without two common seeds.
    """

    best: Point
    place: int
    judge: Metric
    reported: Metric
    rows: str
    among: int
    differences: tuple[Difference | None, ...]

    def sentence(self, label: str) -> str:
        """Return the choice in words, with what is reported of it.

        Parameters
        ----------
        label
            What the point is called.
        """
        value = _text(self.best, self.judge)
        if self.judge.name == self.reported.name:
            return f"best of {self.among}: {label}, {value}, chosen on {self.rows}"
        tested = f"{_text(self.best, self.reported)} {ONCE}"
        return f"best of {self.among}: {label}, chosen by {value}; {tested}"

    def next_best(self, labels: Sequence[str]) -> str:
        """Return in words how far the best is from the point that comes next to it; empty without differences."""
        apart = {place: each.mean for place, each in enumerate(self.differences) if each is not None}
        if not apart:
            return ""
        place = min(apart, key=lambda each: apart[each])
        found = self.differences[place]
        return "" if found is None else found.sentence(labels[self.place], labels[place])

    @property
    def how(self) -> str:
        """What the intervals are."""
        return (
            f"differences of {self.reported.title}, paired by seed, with t intervals; family-wise error 5 % over all "
            f"pairs of points ({CORRECTION})"
        )


def choice_of(points: Sequence[Point]) -> Choice | None:
    """Return the best of several points; None where there is nothing to choose from, or to choose by.

    Points with fewer seeds than others are not chosen, nor are those that another metric ranks.
    """
    whole = [point for point in points if point.counted and not point.counted[0].summary.get("paused")]
    judge = whole[0].counted[0].metrics.headline if len(points) > 1 and whole else None
    if judge is None or any(rows_of(point) == PRIVATE_ROWS for point in points):
        return None
    scored = [point if _is_ranked(point, judge) else None for point in points]
    most = max((len(point.counted) for point in scored if point), default=0)
    means = {
        place: mean.mean
        for place, point in enumerate(scored)
        if point and len(point.counted) == most and (mean := point.spread(partial(StoredRun.latest, name=judge.name)))
    }
    if not means:
        return None
    place = min(means, key=lambda each: means[each] if judge.better == "down" else -means[each])
    best = points[place]
    reported = best.counted[0].metrics.of_model or judge
    scores = [{} if point is None else _by_seed(point, reported) for point in scored]
    return Choice(best, place, judge, reported, rows_of(best), len(points), tuple(differences(scores, reported, place)))


def rows_of(point: Point) -> str:
    """Return which rows have chosen in the runs of a point, as their summaries say."""
    return str(point.counted[0].summary.get("chosen_on", "") if point.counted else "")


def _is_ranked(point: Point, judge: Metric) -> bool:
    """Return whether a metric ranks all runs of a point, and none of them is paused."""
    return all(
        run.metrics.headline == judge and run.latest(judge.name) is not None and not run.summary.get("paused")
        for run in point.counted
    )


def _by_seed(point: Point, metric: Metric) -> Scores:
    found = {run.summary.get("seed"): run.latest(metric.name) for run in point.counted}
    return {seed: value for seed, value in found.items() if isinstance(seed, int) and value is not None}


def _text(point: Point, metric: Metric) -> str:
    spread = point.spread(partial(StoredRun.latest, name=metric.name))
    return f"{metric.title} {'-' if spread is None else number_spread(*spread)}"
