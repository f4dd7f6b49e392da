"""Trees for people: indented text, pictures with matplotlib, importances of features.

Everything here is computed from published trees, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fedlearn.private_trees.node_table import NodeTable, children_of
from fedlearn.private_trees.table_cells import names_of


@dataclass(frozen=True, slots=True)
class Words:
    """Names of features, categories and classes in text and pictures; None: their numbers."""

    features: Sequence[str] | None = None
    codes: Sequence[Sequence[str]] | None = None  # for each feature a text for each code, such as "job = clerk"
    classes: Sequence[str] | None = None
    decimals: int = 2
    orders: Mapping[int, NDArray[np.int64]] = field(
        default_factory=dict
    )  # category by rank, if thresholds divide ranks
    categories: Mapping[int, Sequence[str]] = field(default_factory=dict)  # names of the categories of `orders`

    def feature(self, table: NodeTable, node: int) -> str:
        """Return the name of the feature that a node tests."""
        feature = int(table.feature[node])
        return f"feature {feature}" if self.features is None else self.features[feature]

    def tests(self, table: NodeTable, node: int) -> Sequence[str]:
        """Return the condition on the edge to each child."""
        name, threshold = self.feature(table, node), table.threshold[node]
        if (order := self.orders.get(int(table.feature[node]))) is not None:
            cut, names = int(np.floor(threshold)) + 1, self.categories.get(int(table.feature[node]))
            sides = (sorted(codes.tolist()) for codes in (order[:cut], order[cut:]))
            return [f"{name} in {{{', '.join(names[c] if names else str(c) for c in side)}}}" for side in sides]
        if not np.isnan(threshold):
            return [f"{name} {sign} {threshold:.{self.decimals}f}" for sign in ("<=", ">")]
        if self.codes is not None:
            return self.codes[int(table.feature[node])]
        return [f"{name} = {code}" for code in range(int(table.num_children[node]))]

    def values(self, table: NodeTable, node: int) -> list[str]:
        """Return the value of a leaf as text, one entry for each class or output."""
        shown = [f"{value:.{self.decimals}f}" for value in table.value[node]]
        return shown if self.classes is None else [f"{c}: {v}" for c, v in zip(self.classes, shown, strict=True)]


def export_text(table: NodeTable, *, tree: int = 0, words: Words | None = None) -> str:
    """Return one tree of the ensemble as indented text, one line for each branch.

    >>> stump = NodeTable.of_nodes(feature=[0, -1, -1], threshold=[0.5, np.nan, np.nan], first_child=[1, -1, -1],
    ...                            num_children=[2, 0, 0], value=[[0.0], [1.0], [2.0]])
    >>> print(export_text(stump, words=Words(features=["age"])))
    |--- age <= 0.50
    |   |--- value: 1.00
    |--- age > 0.50
    |   |--- value: 2.00
    """
    return "\n".join(_lines(table, _root(table, tree), 0, words or Words()))


def plot(table: NodeTable, *, tree: int = 0, max_depth: int = 4, words: Words | None = None, ax: Any = None) -> Any:
    """Draw the upper levels of one tree with matplotlib and return the axes.

    Parameters
    ----------
    max_depth
        Levels of splits to draw; deeper levels are shown as "...".
    ax
        Axes to draw on; None: new axes.
    """
    root = _root(table, tree)
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=(10, 6)).subplots()
    ax.set_axis_off()
    _draw(ax, table, root, (0.0, 1.0), 0, max_depth, words or Words())
    return ax


def importances(table: NodeTable, num_features: int) -> NDArray[np.float64]:
    """Return (features,) the importance of each feature in [0, 1]; importances sum to 1, or all are 0.

    A split adds the variance between its children's values, summed over outputs, times the share of its tree below it.
    Numbers of records are not published, so each of k branches has 1 / k of its parent's share. Values hold noise, so a
    feature without influence may have an importance above 0.

    >>> stump = NodeTable.of_nodes(feature=[1, -1, -1], threshold=[0.5, np.nan, np.nan], first_child=[1, -1, -1],
    ...                            num_children=[2, 0, 0], value=[[0.0], [1.0], [2.0]])
    >>> importances(stump, 3)
    array([0., 1., 0.])
    """
    share = np.zeros(table.num_nodes)
    share[table.root] = table.weight
    total = np.zeros(num_features)
    level = table.root.astype(np.int64)
    while len(inner := level[table.feature[level] >= 0]):
        count = table.num_children[inner].astype(np.int64)
        level = children_of(table, inner)
        parent = np.repeat(np.arange(len(inner)), count)
        share[level] = (share[inner] / count)[parent]
        first = np.cumsum(count) - count
        value = table.value[level]
        apart = value - (np.add.reduceat(value, first, axis=0) / count[:, None])[parent]
        np.add.at(total, table.feature[inner][parent], share[level] * (apart**2).sum(axis=1))
    return total / total.sum() if total.sum() > 0 else total


class Drawable:
    """Mixin of estimators with trees: text, pictures, importances of features; none of it costs any epsilon."""

    table_: NodeTable
    n_features_in_: int

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """(features,) the importance of each feature in [0, 1]: see `importances`.

        Importances are computed from published trees alone, so that they cost no epsilon.
        """
        self._check_is_fitted()
        return importances(self._drawn(), self.n_features_in_)

    def rules(self, *, decimals: int = 2) -> str:
        """Return all trees as indented text, each below a line with its number and its share in the prediction."""
        self._check_is_fitted()
        table, words = self._drawn(), self._words(decimals)
        heads = (
            f"tree {tree} of {table.num_trees}, weight {table.weight[tree]:.4g}" for tree in range(table.num_trees)
        )
        return "\n".join(f"{head}\n{export_text(table, tree=tree, words=words)}" for tree, head in enumerate(heads))

    def export_text(self, *, tree: int = 0, decimals: int = 2) -> str:
        """Return one tree as indented text."""
        self._check_is_fitted()
        return export_text(self._drawn(), tree=tree, words=self._words(decimals))

    def plot(self, *, tree: int = 0, max_depth: int = 4, decimals: int = 2, ax: Any = None) -> Any:
        """Draw the upper levels of one tree with matplotlib and return the axes."""
        self._check_is_fitted()
        return plot(self._drawn(), tree=tree, max_depth=max_depth, words=self._words(decimals), ax=ax)

    def _check_is_fitted(self) -> None:
        check_is_fitted(self, "table_")

    def _drawn(self) -> NodeTable:
        """Return the table whose values text and pictures show."""
        return self.table_

    def _words(self, decimals: int) -> Words:
        return Words(features=names_of(self), decimals=decimals)


def _root(table: NodeTable, tree: int) -> int:
    if not 0 <= tree < table.num_trees:
        raise ValueError(
            f"tree: {tree} must be in 0 .. {table.num_trees - 1}" if table.num_trees else "the forest has no tree"
        )
    return int(table.root[tree])


def _lines(table: NodeTable, node: int, indent: int, words: Words) -> Iterator[str]:
    prefix = "|   " * indent + "|--- "
    if table.feature[node] < 0:
        yield f"{prefix}{'' if words.classes else 'value: '}{', '.join(words.values(table, node))}"
        return
    for child, test in enumerate(words.tests(table, node)):
        yield f"{prefix}{test}"
        yield from _lines(table, int(table.first_child[node]) + child, indent + 1, words)


def _draw(
    ax: Any, table: NodeTable, node: int, span: tuple[float, float], level: int, max_depth: int, words: Words
) -> None:
    """Draw a node in the middle of its horizontal span, with its children below; a true condition leads left."""
    x, y = (span[0] + span[1]) / 2, -float(level)
    count = int(table.num_children[node])
    is_numeric = not np.isnan(table.threshold[node])
    if count == 0:
        text = "\n".join(words.values(table, node))
    elif level >= max_depth:
        text, count = "...", 0
    else:
        text = words.tests(table, node)[0] if is_numeric else words.feature(table, node)
    width = (span[1] - span[0]) / max(count, 1)
    for child in range(count):
        part = (span[0] + child * width, span[0] + (child + 1) * width)
        middle = (part[0] + part[1]) / 2
        ax.plot([x, middle], [y, y - 1], color="gray", zorder=0)
        if not is_numeric:
            test = words.tests(table, node)[child].removeprefix(f"{words.feature(table, node)} = ")
            ax.text((x + 3 * middle) / 4, y - 3 / 4, test, rotation=90 if count > 3 else 0, **EDGE)
        _draw(ax, table, int(table.first_child[node]) + child, part, level + 1, max_depth, words)
    ax.text(x, y, text, ha="center", va="center", fontsize=8, bbox=BOX)


BOX = {"boxstyle": "round", "facecolor": "white", "edgecolor": "gray"}
EDGE: dict[str, Any] = {
    "ha": "center",
    "va": "center",
    "fontsize": 7,
    "bbox": {"facecolor": "white", "pad": 1, "lw": 0},
}
