"""Show which client would have which examples, before anything is trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from fedlearn.config import RunConfig, to_flower
from fedlearn.core.client_facts import CLASS, Dealt
from fedlearn.core.errors import UsageError
from fedlearn.data.data_spec import Examples
from fedlearn.data.dataset import Dataset
from fedlearn.data.dealing import dealt_to
from fedlearn.data.partitioning import partition_table
from fedlearn.data.rows_of_nodes import PartitionTable
from fedlearn.engine.prepare import prepared
from fedlearn.models.loaded import dataset_of, protects_each_record
from fedlearn.report.charts.kinds import HeatMap
from fedlearn.report.charts.plots import FORMATS, save
from fedlearn.report.charts.skew import chart_of
from fedlearn.report.tables import Table

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 100  # of the table that is printed
MOST_LABELS = 12  # that are printed, a column each
PRIVATE = "the run is private: its results hold none of these counts, which no budget pays for: do not publish them"


@dataclass(frozen=True, slots=False, eq=False, repr=False)
class Partitions:
    """Which client of a run has which training examples.

    Parameters
    ----------
    config : RunConfig
        All settings of the run.
    dataset : Dataset
        The data set of the run.
    rows : PartitionTable
        The rows of ``dataset.train`` of each client.

    Examples
    --------
    >>> found = fedlearn.partitions(clients=10, data="digits", partition="dirichlet")  # doctest: +SKIP
    >>> found.table, found.who_has, found.save("who.svg")  # doctest: +SKIP
    """

    config: RunConfig
    dataset: Dataset
    rows: PartitionTable

    @property
    def table(self) -> pd.DataFrame:
        """A row for each client: the number of examples that it trains on, those that it holds out, its labels.

        ``labels`` counts the different labels, where labels are counted (`who_has`).
        """
        import pandas as pd

        sizes = self.rows.sizes()
        whole = np.diff(np.asarray(self.rows.offsets))
        columns = {"examples": sizes, "held_out": whole - sizes}
        table = pd.DataFrame(columns, index=pd.RangeIndex(len(sizes), name="client"))
        if self._dealt is not None and len(self._dealt.counts) > 1:
            table["labels"] = (self.who_has > 0).sum().reindex(table.index).astype("Int64")
        return table

    @property
    def who_has(self) -> pd.DataFrame:
        """The number of training examples of each label (row) on each client (column), as `Run.who_has`.

        Of more than a thousand clients the first ones are counted, of more than a thousand labels only the examples.
        """
        return as_frame(self._counts, lambda: self.dataset.class_names)

    @property
    def chart(self) -> HeatMap:
        """The picture of `who_has`, as the page of a run draws it."""
        return chart_of(self._counts, to_flower(self.config), lambda: self.dataset.class_names)

    @property
    def notice(self) -> str:
        """A line on the use of these counts where the run is private; else empty."""
        return PRIVATE if protects_each_record(self.config) else ""

    def examples(self, client: int) -> Examples:
        """Return the examples that a client trains on: ``inputs`` and ``targets``."""
        return self.dataset.train.at(self.rows.indices(client))

    def save(self, path: str | Path) -> Path:
        """Write the picture as a .png, .svg or .pdf file; return its path."""
        path = Path(path)
        kind = path.suffix.removeprefix(".")
        if kind not in FORMATS or not path.parent.is_dir():
            raise UsageError(f"{path}: name a .png, .svg or .pdf file in a folder that is there")
        save(self.chart, path.parent, path.stem, formats=[kind])
        return path

    def printed(self) -> Table:
        """Return the table for a terminal: the first clients, with the number of examples of each label."""
        labels = self.who_has if len(self._counts.counts) in range(2, MOST_LABELS + 1) else self.who_has.iloc[:0]
        table = self.table.iloc[:MOST_ROWS]
        rows = [
            [str(client), *map(str, row), *(map(str, labels[client]) if client in labels else [])]
            for client, row in zip(table.index, table.itertuples(index=False), strict=True)
        ]
        heads = ["client", *(name.replace("_", " ") for name in table.columns), *map(str, labels.index)]
        shown = f"; the first {MOST_ROWS}" if len(self.rows) > MOST_ROWS else ""
        return Table.of_texts("partitions", f"{self._title}{shown}", heads, rows)

    def to_plain(self) -> dict[str, Any]:
        """Return sizes and counts as JSON can hold them."""
        counts = {str(label): row.tolist() for label, row in self.who_has.iterrows()}
        columns = {str(name): column.tolist() for name, column in self.table.items() if name != "labels"}
        return {"clients": len(self.rows), **columns, "what": self._counts.what, "who_has": counts}

    @property
    def _title(self) -> str:
        sizes = self.rows.sizes()
        data = self.config.data
        about = f"{self.dataset.name}, {data.partition}, seed {self.config.seed}"
        return f"{about}: {len(sizes)} clients with {sizes.min()} to {sizes.max()} examples"

    @cached_property
    def _dealt(self) -> Dealt | None:
        return dealt_to(self.dataset, self.rows)

    @property
    def _counts(self) -> Dealt:
        if self._dealt is None:
            raise UsageError(f"{self.dataset.name}: examples so large are made one by one: there are sizes alone")
        return self._dealt

    def __repr__(self) -> str:
        return f"<Partitions of {self._title}>"

    def _repr_html_(self) -> str:
        if self._dealt is None:
            return str(self.table._repr_html_())
        with TemporaryDirectory() as folder:
            drawing = self.save(Path(folder) / "who.svg").read_text(encoding="utf-8")
        return drawing[drawing.index("<svg") :]


def partitions_of(config: RunConfig) -> Partitions:
    """Return which client has which examples in the run of these settings, which is not begun."""
    config = prepared(config)
    dataset = dataset_of(config)
    by_record = protects_each_record(config)
    rows = partition_table(dataset, config.data, num_partitions=config.clients, seed=config.seed, by_record=by_record)
    return Partitions(config, dataset, rows)


def as_frame(dealt: Dealt, class_names: Callable[[], Sequence[str]]) -> pd.DataFrame:
    """Return counts as a data frame: a row for each label, a column for each node."""
    import pandas as pd

    names = class_names() if dealt.what == CLASS else ()
    rows = [*names, *range(len(names), len(dealt.counts))][: len(dealt.counts)]
    nodes = pd.RangeIndex(len(dealt.counts[0]), name="node")
    return pd.DataFrame(dealt.counts, index=pd.Index(rows, name=dealt.what), columns=nodes)
