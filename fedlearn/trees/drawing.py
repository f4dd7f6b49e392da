"""Trees for people: indented text, and a picture with matplotlib."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fedlearn.trees.nodes import NodeTable


def export_text(
    table: NodeTable, *, tree: int = 0, feature_names: Sequence[str] | None = None, decimals: int = 2
) -> str:
    """Return one tree of the ensemble as indented text, one line for each branch.

    >>> stump = NodeTable.of_nodes(feature=[0, -1, -1], threshold=[0.5, np.nan, np.nan], first_child=[1, -1, -1],
    ...                            num_children=[2, 0, 0], value=[[0.0], [1.0], [2.0]])
    >>> print(export_text(stump, feature_names=["age"]))
    |--- age <= 0.50
    |   |--- value: 1.00
    |--- age > 0.50
    |   |--- value: 2.00
    """
    return "\n".join(_lines(table, int(table.root[tree]), 0, feature_names, decimals))


def _lines(table: NodeTable, node: int, indent: int, names: Sequence[str] | None, decimals: int) -> Iterator[str]:
    prefix = "|   " * indent + "|--- "
    if table.feature[node] < 0:
        values = ", ".join(f"{value:.{decimals}f}" for value in table.value[node])
        yield f"{prefix}value: {values}"
        return
    for child, test in enumerate(_tests(table, node, names, decimals)):
        yield f"{prefix}{test}"
        yield from _lines(table, int(table.first_child[node]) + child, indent + 1, names, decimals)


def _tests(table: NodeTable, node: int, names: Sequence[str] | None, decimals: int) -> list[str]:
    """Return what must hold on the way to each child."""
    feature = int(table.feature[node])
    name = f"feature {feature}" if names is None else names[feature]
    threshold = table.threshold[node]
    if np.isnan(threshold):
        return [f"{name} = {code}" for code in range(int(table.num_children[node]))]
    return [f"{name} <= {threshold:.{decimals}f}", f"{name} > {threshold:.{decimals}f}"]


def plot(
    table: NodeTable,
    *,
    tree: int = 0,
    feature_names: Sequence[str] | None = None,
    max_depth: int = 4,
    decimals: int = 2,
    ax: Any = None,
) -> Any:
    """Draw the upper levels of one tree with matplotlib and return the axes.

    Parameters
    ----------
    max_depth
        Levels of splits to draw; what lies below is shown as "...".
    ax
        Axes to draw on; None = new ones.
    """
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=(10, 6)).subplots()
    ax.set_axis_off()
    _draw(ax, table, int(table.root[tree]), (0.0, 1.0), 0, max_depth, (feature_names, decimals))
    return ax


def _draw(
    ax: Any, table: NodeTable, node: int, span: tuple[float, float], level: int, max_depth: int, style: tuple[Any, int]
) -> None:
    """Draw a node in the middle of its span of the width, its children below it."""
    names, decimals = style
    x, y = (span[0] + span[1]) / 2, -float(level)
    count = int(table.num_children[node])
    box = {"boxstyle": "round", "facecolor": "white", "edgecolor": "gray"}
    if count == 0:
        text = "\n".join(f"{value:.{decimals}g}" for value in table.value[node])
    elif level >= max_depth:
        text, count = "...", 0
    else:
        tests = _tests(table, node, names, decimals)
        text = tests[0] if not np.isnan(table.threshold[node]) else tests[0].rsplit(" = ", 1)[0]
    width = (span[1] - span[0]) / max(count, 1)
    for child in range(count):
        part = (span[0] + child * width, span[0] + (child + 1) * width)
        ax.plot([x, (part[0] + part[1]) / 2], [y, y - 1], color="gray", zorder=0)
        _draw(ax, table, int(table.first_child[node]) + child, part, level + 1, max_depth, style)
    ax.text(x, y, text, ha="center", va="center", fontsize=8, bbox=box)
