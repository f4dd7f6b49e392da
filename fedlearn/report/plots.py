"""Charts as files: PNG for slides, SVG for papers, drawn by matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedlearn.report.axes import axis_of, log_axis_of, written
from fedlearn.report.charts import Chart, HeatMap, LineChart, ScatterChart, StackedBars
from fedlearn.report.labels import placed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALETTE = ("#2a78d6", "#eb6834", "#1a9e6e", "#d99a00", "#d4679a", "#0b7a1c", "#5546b8", "#d63a39")
DASHES = ("-", "--", ":")
LAYERS = {
    "selection": "#d99a00", "training": "#2a78d6", "evaluation": "#1a9e6e",
    "reported": "#2a78d6", "failed": "#d63a39", "refused": "#5546b8", "late": "#d99a00",
}  # fmt: skip
STYLE: Any = {  # matplotlib's type names every key
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#e4e5e3",
    "axes.axisbelow": True, "legend.frameon": False, "legend.fontsize": 8,
    "figure.subplot.left": 0.13, "figure.subplot.right": 0.97, "figure.subplot.bottom": 0.14,
    "figure.subplot.top": 0.91, "svg.fonttype": "none", "svg.hashsalt": "fedlearn", "text.parse_math": False,
}  # fmt: skip
WIDE, HIGH, LETTER = 326.0, 188.0, 4.0  # of the axes and of a letter in a name, in points
MOST_NAMES = 16  # in a legend


def save(chart: Chart, folder: Path, name: str = "") -> list[Path]:
    """Write a chart as PNG and SVG; the same chart gives the same bytes."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.4, 3.4))
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.set_title(chart.title, loc="left", fontsize=10)
        axes.set_ylabel(chart.y_title)
        _draw(chart, axes)
        paths = [folder / f"{name or chart.key}{ending}" for ending in (".png", ".svg")]
        for path in paths:
            metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
            figure.savefig(path, dpi=160, metadata=metadata)
    return paths


def _draw(chart: Chart, axes: Axes) -> None:
    if isinstance(chart, LineChart):
        _lines(chart, axes)
    elif isinstance(chart, StackedBars):
        _bars(chart, axes)
    elif isinstance(chart, ScatterChart):
        _dots(chart, axes)
    else:
        _cells(chart, axes)


def _lines(chart: LineChart, axes: Axes) -> None:
    for line in chart.lines:
        colour, dash = PALETTE[line.slot % len(PALETTE)], DASHES[line.slot // len(PALETTE) % len(DASHES)]
        marker = "o" if len(line.x) == 1 else None
        axes.plot(line.x, line.y, dash, color=colour, label=_label(line.label), marker=marker, linewidth=1.6)
        if line.low:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
    if chart.log_x:
        places = log_axis_of(value for line in chart.lines for value in line.x)
        axes.set_xscale("log")
        axes.set_xticks(places.ticks, [written(tick) for tick in places.ticks])
        axes.set_xticks([], minor=True)
    axes.set_xlabel(chart.x_title)
    if 1 < len(chart.lines) <= MOST_NAMES:
        axes.legend()


def _label(name: str) -> str:
    """Return a name that matplotlib does not take for a private one, which it would leave out."""
    return f" {name}" if name.startswith("_") else name


def _bars(chart: StackedBars, axes: Axes) -> None:
    base = np.zeros(len(chart.rounds))
    for name, heights in chart.layers.items():
        axes.bar(chart.rounds, heights, bottom=base, color=LAYERS[name], label=name)
        base += np.array(heights)
    axes.set_xlabel("round")
    axes.legend()


def _dots(chart: ScatterChart, axes: Axes) -> None:
    front = sorted((dot.x, dot.y) for dot in chart.dots if dot.on_front)
    axes.plot([x for x, _ in front], [y for _, y in front], "--", color="#8b919a", linewidth=1, zorder=1)
    for dot in chart.dots:
        colour = PALETTE[dot.slot % len(PALETTE)]
        axes.scatter(dot.x, dot.y, s=34, color=colour if dot.on_front else "white", edgecolors=colour, zorder=2)
    x, y = (
        (log_axis_of if chart.log_x else axis_of)([dot.x for dot in chart.dots]),
        axis_of(dot.y for dot in chart.dots),
    )
    if chart.log_x:
        axes.set_xscale("log")
    axes.set(xlim=(x.low, x.high), ylim=(y.low, y.high))
    axes.set_xticks(x.ticks, [written(tick) for tick in x.ticks])
    axes.set_xticks([], minor=True)
    for label in placed(
        ((dot.label, x.place(dot.x) * WIDE, (1 - y.place(dot.y)) * HIGH) for dot in chart.dots if dot.on_front),
        left=0, right=WIDE, letter=LETTER,
    ):  # fmt: skip
        side = "right" if label.is_right else "left"
        axes.text(label.x / WIDE, 1 - label.y / HIGH, _label(label.text), ha=side, fontsize=7, transform=axes.transAxes)
    axes.set_xlabel(chart.x_title)


def _cells(chart: HeatMap, axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    image = axes.imshow(chart.counts, aspect="auto", cmap="Blues", vmin=0, interpolation="nearest")
    axes.set_yticks(range(len(chart.rows)), chart.rows)
    axes.set_xlabel(chart.x_title)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=False)
    axes.figure.colorbar(image, ax=axes, label="examples")
