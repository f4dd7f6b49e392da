"""What the figures of all sweeps have in common.

Lines are means over seeds, bands and bars one sample standard deviation to each side. Colours are told apart by
colour-blind readers: ordered axes run through viridis, others through the palette of Okabe and Ito, each with a marker
of its own. Each figure is written as PNG and SVG.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

from experiments.sweeps.results import MB, Group, mean_and_sd, over_seeds

BLACK = "#000000"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#B8A800")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


@contextmanager
def drawn(folder: Path, name: str, *, columns: int = 1, size: tuple[float, float] = (5.2, 3.9)) -> Iterator[Any]:
    """Yield the panels of a figure, side by side with one scale of accuracy; write it when they are filled."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "fedlearn"  # the same figure has the same bytes
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(
        1, columns, figsize=(columns * size[0], size[1]), sharey=True, squeeze=False, layout="constrained"
    )
    yield list(panels[0])
    for panel in panels[0]:
        panel.set_ylim(bottom=max(panel.get_ylim()[0], 0.0))
    figure.savefig(folder / f"{name}.png", dpi=160)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    pyplot.close(figure)


def shades(count: int) -> list[Any]:
    """Return colours for an ordered axis, dark to light, none of them too light to see."""
    from matplotlib import colormaps

    return [colormaps["viridis"](0.88 * place / max(count - 1, 1)) for place in range(count)]


def label_axes(panel: Any, *, title: str, x: str, y: str = "") -> None:
    """Name the axes, with their units, and take away what nobody needs to see."""
    panel.set_title(title, fontsize=10, loc="left")
    panel.set_xlabel(x)
    panel.set_ylabel(y)
    panel.grid(alpha=0.25, linewidth=0.6)
    panel.spines[["top", "right"]].set_visible(False)


def legend(panel: Any, title: str) -> None:
    """Name the lines, to the right of the panel."""
    style = {"fontsize": 8, "title_fontsize": 8, "frameon": False, "alignment": "left"}
    panel.legend(title=title, loc="upper left", bbox_to_anchor=(1.01, 1.0), **style)


def round_axis(panel: Any) -> None:
    """Mark whole rounds only."""
    panel.xaxis.get_major_locator().set_params(integer=True)


def curve(panel: Any, group: Group, column: str, *, over: str = "round", **style: Any) -> None:
    """Draw a column of the rounds, as a line with a band.

    Parameters
    ----------
    over
        ``"round"``, or ``"bytes"`` for the megabytes uploaded by all nodes so far.
    """
    by_round: dict[float, list[float]] = {}
    for result in group:
        for number, value in result.curve(column):
            by_round.setdefault(number, []).append(value)
    whole = {number: values for number, values in by_round.items() if len(values) == len(group)}
    means, spreads = zip(*(mean_and_sd(values) for values in whole.values()), strict=True)
    places = list(whole) if over == "round" else [_uploaded(group, number) for number in whole]
    (line,) = panel.plot(places, means, **{"linewidth": 1.6, **style})
    if len(group) > 1:
        low, high = ([m + sign * s for m, s in zip(means, spreads, strict=True)] for sign in (-1, 1))
        panel.fill_between(places, low, high, color=line.get_color(), alpha=0.15, linewidth=0)


def _uploaded(group: Group, number: float) -> float:
    """Return the megabytes that all nodes have uploaded up to a round, mean over seeds."""
    sums = [sum(value for at, value in result.curve("bytes_up") if at <= number) for result in group]
    return mean_and_sd(sums)[0] / MB


def line(panel: Any, places: Sequence[float], groups: Sequence[Group], name: str, **style: Any) -> None:
    """Draw one result of several points over a number, with a bar for each spread."""
    means, spreads = zip(*(over_seeds(group, name) for group in groups), strict=True)
    bars = None if None in spreads else spreads
    panel.errorbar(places, means, bars, capsize=2.5, elinewidth=1, **{"linewidth": 1.6, "markersize": 5, **style})


def by_round(folder: Path, name: str, groups: Sequence[Group], *, panels: str, lines: str, ordered: bool) -> None:
    """Draw accuracy by round: a panel for each label of one axis, a line for each label of another.

    Parameters
    ----------
    ordered
        Whether the labels of the lines have an order, and so their colours.
    """
    table: dict[str, dict[str, Group]] = {}
    for group in groups:
        labels = group[0].run.labels
        table.setdefault(labels[panels], {})[labels[lines]] = group
    styles = styles_of(dict.fromkeys(group[0].run.labels[lines] for group in groups), ordered=ordered)
    with drawn(folder, name, columns=len(table), size=(4.2, 3.9)) as places:
        for panel, (label, row) in zip(places, table.items(), strict=True):
            for line_label, group in row.items():
                curve(panel, group, "accuracy", label=line_label, **styles[line_label])
            round_axis(panel)
            y = "test accuracy" if panel is places[0] else ""
            label_axes(panel, title=f"{panels.replace('_', ' ')}: {label}", x="round", y=y)
        legend(places[-1], lines.replace("_", " "))


def styles_of(labels: Iterable[str], *, ordered: bool) -> dict[str, dict[str, Any]]:
    """Return how the line of each label looks."""
    labels = list(labels)
    if ordered:
        return {label: {"color": shade} for label, shade in zip(labels, shades(len(labels)), strict=True)}
    looks = zip(cycle(COLOURS), cycle(MARKERS), labels, strict=False)
    return {label: {"color": color, "marker": marker, "markersize": 4} for color, marker, label in looks}


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the places of those (cost, gain) that no other beats, cheapest first.

    >>> pareto_front([(1, 0.2), (3, 0.5), (2, 0.1), (4, 0.5)])
    [0, 1]
    """
    front: list[int] = []
    for place in sorted(range(len(points)), key=lambda place: (points[place][0], -points[place][1])):
        if not front or points[place][1] > points[front[-1]][1]:
            front.append(place)
    return front
