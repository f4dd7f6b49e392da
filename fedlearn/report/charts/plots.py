"""Draw charts as files with matplotlib: PNG for slides, SVG and PDF for papers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from fedlearn.report.charts.axes import axis_of, log_axis_of
from fedlearn.report.charts.captions import placed
from fedlearn.report.charts.kinds import WHOLE, Chart, Dot, HeatMap, Line, LineChart, ScatterChart, StackedBars
from fedlearn.report.charts.round_charts import ASKED
from fedlearn.report.numbers import MeanSd, written
from fedlearn.report.words import word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = ("#2a78d6", "#eb6834", "#1a9e6e", "#d99a00", "#d4679a", "#0b7a1c", "#5546b8", "#d63a39")
DASHES = ("-", "--", ":")
LAYERS = {
    "selection": "#d99a00", "training": "#2a78d6", "evaluation": "#1a9e6e",
    "reported": "#2a78d6", "failed": "#d63a39", "refused": "#5546b8", "late": "#d99a00",
    "value": "#2a78d6", "after": "#1a9e6e",
}  # fmt: skip
SIZE = (5.4, 3.4)  # of a chart, in inches
STYLE: Any = {  # matplotlib's type names every key
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#e4e5e3",
    "axes.axisbelow": True, "axes.titlelocation": "left", "axes.titlesize": 10, "lines.linewidth": 1.6,
    "legend.frameon": False, "legend.fontsize": 8, "legend.title_fontsize": 8, "errorbar.capsize": 2.5,
    "figure.subplot.left": 0.13, "figure.subplot.right": 0.97, "figure.subplot.bottom": 0.14,
    "figure.subplot.top": 0.91, "svg.fonttype": "none", "svg.hashsalt": "fedlearn", "text.parse_math": False,
    "pdf.fonttype": 42,
}  # fmt: skip
FORMATS: dict[str, dict[str, Any]] = {
    "png": {"dpi": 160, "metadata": {"Software": None}},
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"CreationDate": None}},
}
"""File format -> keywords of `savefig` with which the same drawing gives the same bytes."""
USUAL = ("png", "svg")
WIDE, HIGH, LETTER = 326.0, 188.0, 4.0  # of the axes and of a letter in a name, in points
MOST_NAMES = 16  # in a legend


@contextmanager
def drawn(
    folder: Path,
    name: str,
    *,
    rows: int = 1,
    columns: int = 1,
    size: tuple[float, float] = (5.2, 3.9),
    layout: Literal["constrained"] | None = "constrained",
    formats: Sequence[str] = USUAL,
) -> Iterator[list[Axes]]:
    """Yield the panels of a figure, row by row, with common scales; write the figure as files after the block.

    The same drawing gives the same bytes.

    Parameters
    ----------
    size
        Width and height of a panel, in inches.
    formats
        Names of `FORMATS`: one file each.
    """  # fmt: skip
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(columns * size[0], rows * size[1]), layout=layout)
        FigureCanvasAgg(figure)
        yield list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
        for ending in formats:
            figure.savefig(folder / f"{name}.{ending}", **FORMATS[ending])


def save(chart: Chart, folder: Path, name: str = "", *, formats: Sequence[str] = USUAL) -> None:
    """Write a chart as files of some `FORMATS`."""
    with drawn(folder, name or chart.key, size=SIZE, layout=None, formats=formats) as (axes,):
        _put(chart, axes)


def figure_of(chart: Chart) -> Figure:
    """Return a chart as a figure of matplotlib."""
    with drawn(Path(), chart.key, size=SIZE, layout=None, formats=()) as (axes,):
        _put(chart, axes)
    return cast("Figure", axes.figure)


def _put(chart: Chart, axes: Axes) -> None:
    axes.set(title=chart.title, ylabel=chart.y_title)
    _draw(chart, axes)


def add_line(axes: Axes, line: Line, **style: Any) -> None:
    """Draw a line with its band; its slot gives color and dashes, unless `style` does."""
    color, dash = _color(line), _dash(line)
    marker = "o" if len(line.x) == 1 else None
    look = {"color": color, "linestyle": dash, "label": _label(line.label), "marker": marker, **style}
    (drawn_line,) = axes.plot(line.x, line.y, **look)
    if line.low:
        axes.fill_between(line.x, line.low, line.high, color=drawn_line.get_color(), alpha=0.15, linewidth=0)


def add_unnamed(axes: Axes, lines: Sequence[Line]) -> None:
    """Draw lines and bands as `add_line` does, in one piece and without names: hundreds of them in a second."""
    from matplotlib.collections import LineCollection, PolyCollection

    bands = [line for line in lines if line.low]
    around = [np.column_stack([[*line.x, *line.x[::-1]], [*line.low, *line.high[::-1]]]) for line in bands]
    axes.add_collection(PolyCollection(around, facecolors=[_color(line) for line in bands], alpha=0.15, linewidths=0))
    through = [np.column_stack([line.x, line.y]) for line in lines]
    dashes = [_dash(line) for line in lines]
    axes.add_collection(LineCollection(through, colors=[_color(line) for line in lines], linestyles=dashes))
    single = [line for line in lines if len(line.x) == 1]
    axes.scatter([line.x[0] for line in single], [line.y[0] for line in single], c=[_color(line) for line in single])
    axes.autoscale_view()


def add_bars(axes: Axes, places: Sequence[float], spreads: Sequence[MeanSd], **style: Any) -> None:
    """Draw a line through means, each with a bar of one standard deviation to each side."""
    bars = [spread.sd or 0.0 for spread in spreads]
    look = {"marker": "o", "markersize": 4, "elinewidth": 1, **style}
    axes.errorbar(places, [spread.mean for spread in spreads], bars if any(bars) else None, **look)


def log_axis(axes: Axes, places: Iterable[float]) -> None:
    """Make the horizontal axis logarithmic, with ticks only at the given places."""
    ticks = sorted({*places})
    axes.set_xscale("log")
    axes.set_xticks(ticks, [written(tick) for tick in ticks])
    axes.set_xticks([], minor=True)


def legend_below(panels: Sequence[Axes], *, columns: int) -> None:
    """Draw one legend below the figure, with the lines of the first panel; all panels must have the same lines."""
    panels[0].figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns)


def whole_ticks(axes: Axes) -> None:
    """Put ticks only at whole numbers of the horizontal axis."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


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
    if len(chart.lines) > MOST_NAMES:
        add_unnamed(axes, chart.lines)
    else:
        for line in chart.lines:
            add_line(axes, line)
    for each in chart.ceilings:
        axes.axhline(each, color="#8b919a", linestyle=(0, (6, 4)), linewidth=1)
    if chart.log_x:
        log_axis(axes, log_axis_of(value for line in chart.lines for value in line.x).ticks)
    elif chart.x_title in WHOLE:
        whole_ticks(axes)
    axes.set_xlabel(chart.x_title)
    if 1 < len(chart.lines) <= MOST_NAMES:
        axes.legend()


def _color(drawn: Line | Dot) -> str:
    return PALETTE[drawn.slot % len(PALETTE)]


def _dash(line: Line) -> str:
    return DASHES[line.slot // len(PALETTE) % len(DASHES)]


def _label(name: str) -> str:
    """Return a name that does not begin with an underscore: matplotlib would leave it out of the legend."""
    return f" {name}" if name.startswith("_") else name


def _bars(chart: StackedBars, axes: Axes) -> None:
    base, middles = np.zeros(len(chart.places)), np.add(chart.places, (chart.each - 1) / 2)
    edges = np.subtract([*chart.places, chart.places[-1] + chart.each], 0.5) if chart.each > 1 else ()
    for name, heights in chart.layers.items():
        if chart.each > 1:  # one outline in place of hundreds of boxes
            axes.stairs(base + heights, edges, baseline=base, fill=True, color=LAYERS[name], label=word(name))
            base += np.array(heights)
            continue
        axes.bar(middles, heights, chart.each * 0.8, bottom=base, color=LAYERS[name], label=word(name))
        base += np.array(heights)
    if chart.x_title in WHOLE:
        whole_ticks(axes)
    if chart.marks and chart.mark != ASKED:
        axes.scatter(middles, chart.marks, s=80, marker="_", color="#16181d", linewidths=1, label=chart.mark)
    axes.set_xlabel(chart.x_title)
    axes.legend()


def _dots(chart: ScatterChart, axes: Axes) -> None:
    front = sorted((dot.x, dot.y) for dot in chart.dots if dot.on_front)
    axes.plot([x for x, _ in front], [y for _, y in front], "--", color="#8b919a", linewidth=1, zorder=1)
    edges = [_color(dot) for dot in chart.dots]
    faces = [edge if dot.on_front else "white" for edge, dot in zip(edges, chart.dots, strict=True)]
    places = ([dot.x for dot in chart.dots], [dot.y for dot in chart.dots])
    axes.scatter(*places, s=34, color=faces, edgecolors=edges, zorder=2)
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
        left=0, right=WIDE, bottom=HIGH, letter=LETTER,
    ):  # fmt: skip
        side = "right" if label.is_right else "left"
        axes.text(label.x / WIDE, 1 - label.y / HIGH, _label(label.text), ha=side, fontsize=7, transform=axes.transAxes)
    axes.set_xlabel(chart.x_title)


def _cells(chart: HeatMap, axes: Axes) -> None:
    if len(chart.rows) == 1 and not chart.columns:
        axes.bar(range(chart.counts.shape[1]), chart.counts[0], width=1.0, color=PALETTE[0])
        axes.set_xlabel(chart.x_title)
        return
    shades = chart.shades if chart.columns else chart.counts
    image = axes.imshow(shades, aspect="auto", cmap="Blues", vmin=0, interpolation="nearest")
    axes.set_yticks(range(len(chart.rows)), chart.rows, fontsize=min(9.0, 160 / len(chart.rows)))
    axes.set_xlabel(chart.x_title)
    if chart.columns:
        size = min(9.0, 160 / len(chart.columns))
        axes.set_xticks(range(len(chart.columns)), chart.columns, rotation=45, ha="right", fontsize=size)
    else:
        whole_ticks(axes)
    axes.grid(visible=False)
    axes.figure.colorbar(image, ax=axes, label="share of the row" if chart.columns else "examples")
