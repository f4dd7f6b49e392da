"""Events on outputs that distinguish two data sets, and confidence bounds on their log-ratios.

``first`` and ``second`` are outputs on two neighboring data sets, (draws, k) each. An event has probability p on one
data set and q on the other. Clopper and Pearson 1934 bound p from below and q from above, with half the risk each, and
so log(p / q) from below at the stated confidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
View: TypeAlias = Callable[[FloatArray], FloatArray]  # (draws, k) -> (draws,)

THRESHOLDS = 64  # events tried per view: more find little more
BINS = 32  # bins of the histogram of each output, for the sum of log-ratios


@dataclass(frozen=True, slots=True)
class Event:
    """A set of outputs, ``view(outputs) compared with cut``, and the data set on which it is likelier."""

    words: str
    view: View
    compare: np.ufunc
    cut: float
    is_second_likelier: bool
    bound: float  # on log(p / q), on the draws that chose the event: too large, as the event was chosen for it

    def hits(self, outputs: FloatArray) -> int:
        """Return the number of outputs in which the event happens."""
        return int(np.count_nonzero(self.compare(self.view(outputs), self.cut)))


def log_ratio_bound(
    likely: IntArray, unlikely: IntArray, draws: int, confidence: float, delta: float = 0.0
) -> FloatArray:
    """Return a lower confidence bound on log((p - delta) / q), at least 0, from the hits of both in ``draws`` each.

    A mechanism that is private at epsilon and delta has p <= exp(epsilon) q + delta for every event.
    """
    risk = (1 - confidence) / 2
    with np.errstate(divide="ignore", invalid="ignore"):  # 0 hits and all hits are set by hand
        low = np.where(likely == 0, 0.0, beta.ppf(risk, likely, draws - likely + 1))
        high = np.where(unlikely == draws, 1.0, beta.ppf(1 - risk, unlikely + 1, draws - unlikely))
        return np.maximum(np.log(np.maximum(low - delta, 0.0) / high), 0.0)


def worst_event(first: FloatArray, second: FloatArray, confidence: float, delta: float = 0.0) -> Event:
    """Return the event with the largest bound on these draws; test it on other draws."""
    events = (
        event for words, view in _views(first, second) for event in _cuts(words, view, first, second, confidence, delta)
    )
    return max(events, key=lambda event: event.bound)


def _views(first: FloatArray, second: FloatArray) -> Iterator[tuple[str, View]]:
    """Yield functions whose values get thresholds: each output, and all outputs of a draw together."""
    width = first.shape[1]
    for column in range(width):
        yield ("output" if width == 1 else f"output[{column}]"), partial(_column, column)
    if width > 1:
        tables = [_log_ratios(first[:, column], second[:, column]) for column in range(width)]
        yield "sum of log-ratios of the outputs", partial(_sum_of_log_ratios, tables)


def _log_ratios(first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the bin edges of one output, (b,), and the log-ratio of its two histograms in each bin, (b + 1,)."""
    edges = np.unique(np.quantile(np.concatenate([first, second]), np.linspace(0, 1, BINS + 1)[1:-1]))
    counts = [np.bincount(np.searchsorted(edges, rows), minlength=edges.size + 1) for rows in (first, second)]
    return edges, np.log((counts[0] + 1) / (counts[1] + 1))


def _column(at: int, rows: FloatArray) -> FloatArray:
    return rows[:, at]


def _sum_of_log_ratios(tables: list[tuple[FloatArray, FloatArray]], rows: FloatArray) -> FloatArray:
    total = np.zeros(len(rows))
    for at, (edges, ratios) in enumerate(tables):
        total += ratios[np.searchsorted(edges, rows[:, at])]
    return total


def _cuts(
    words: str, view: View, first: FloatArray, second: FloatArray, confidence: float, delta: float
) -> Iterator[Event]:
    """Yield the best event of one view: at or above a cut, below it, and, where values are few, equal to it."""
    sides = np.sort(view(first)), np.sort(view(second))
    cuts = np.unique(np.concatenate(sides))
    few = cuts.size <= THRESHOLDS
    if not few:  # quantiles of each side, as the tail of one side is rare on the other
        cuts = np.unique([np.quantile(side, np.linspace(0, 1, THRESHOLDS)) for side in sides])
    at_least = np.stack([side.size - np.searchsorted(side, cuts, side="left") for side in sides])  # (2, cuts)
    kinds = [(">=", np.greater_equal, at_least), ("<", np.less, len(first) - at_least)]
    if few:
        kinds.append(("=", np.equal, at_least - np.append(at_least[:, 1:], [[0], [0]], axis=1)))
    for sign, compare, hits in kinds:
        bounds = log_ratio_bound(hits, hits[::-1], len(first), confidence, delta)  # (2, cuts)
        side, index = np.unravel_index(bounds.argmax(), bounds.shape)
        cut = float(cuts[index])
        yield Event(f"{words} {sign} {cut:.4g}", view, compare, cut, bool(side), float(bounds[side, index]))
