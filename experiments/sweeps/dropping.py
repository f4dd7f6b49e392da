"""Compare the kept share of each parameter with the paper's one shuffle over all entries.

    FEDLEARN_DATA=... python -m experiments.sweeps.dropping --quick

``compression.granularity = "entry"`` sends an exact share of each parameter, ``"all"`` what one shuffle over all
entries leaves. ``configs/dropping.toml`` has the settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.sweeps import figures
from experiments.sweeps.command import Results, experiment
from fedlearn.sweeps.results import points_of


def draw(results: Results, folder: Path) -> None:
    """Draw accuracy over rounds, a panel for each number of clients; write the table."""
    points = points_of(results)
    figures.by_round(folder, "accuracy_by_round", points, panels="clients", lines="drawn", ordered=False)
    figures.write_table(
        points, folder, caption="Accuracy after the last round, by how dropped entries are drawn",
        plain=("drawn", "a share of each parameter"),
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("dropping", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
