"""Colors, markers and legends of lines, as all figures of experiments have them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from typing import Any

from fedlearn.report.charts.plots import PALETTE

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def legend(panel: Any, title: str) -> None:
    """Name the lines, to the right of the panel."""
    panel.legend(title=title.replace("_", " "), loc="upper left", bbox_to_anchor=(1.01, 1.0), alignment="left")


def styles_of(labels: Iterable[str], *, ordered: bool) -> dict[str, dict[str, Any]]:
    """Return label -> style of its line."""
    labels = list(labels)
    if ordered:
        return {label: {"color": shade} for label, shade in zip(labels, shades(len(labels)), strict=True)}
    looks = zip(cycle(PALETTE), cycle(MARKERS), labels, strict=False)
    return {label: {"color": color, "marker": marker, "markersize": 4} for color, marker, label in looks}


def shades(count: int) -> list[Any]:
    """Return colors for an ordered axis, from dark to light, none of them too light to see."""
    from matplotlib import colormaps

    return [colormaps["viridis"](0.88 * place / max(count - 1, 1)) for place in range(count)]
