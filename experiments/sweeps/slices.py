"""Compare three ways to give clients slices of five sizes with FedAvg by the smallest and by the whole model.

    FEDLEARN_DATA=... python -m experiments.sweeps.slices --quick

A client has the ratio 1, 1/2, 1/4, 1/8 or 1/16, in turns. Accuracy is that of the whole model. ``configs/slices.toml``
has the settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.sweeps import figures
from experiments.sweeps.command import Results, experiment
from fedlearn.sweeps.results import points_of


def draw(results: Results, folder: Path) -> None:
    """Draw accuracy over rounds, a panel for each model; write the table."""
    points = points_of(results)
    figures.by_round(folder, "accuracy_by_round", points, panels="model", lines="method", ordered=False)
    figures.write_table(
        points, folder, caption="Accuracy after the last round, by slices", plain=("method", "all have the whole")
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("slices", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
