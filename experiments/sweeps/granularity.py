"""Compare ways to drop and to average: entries or tensors, weights or updates, survivors or rescaling.

    FEDLEARN_DATA=... python -m experiments.sweeps.granularity --quick

The federated paper averages the sent entries and trusts that nodes hold nearly the same parameters. They do after one
epoch on even data, and less so after five on skewed data. *Rescaled* is Rand-k: an entry that was not sent counts as no
change, a sent entry is scaled up; *spatial* stands between the two (Jhunjhunwala et al. 2021, arXiv:2110.07751).
``configs/granularity.toml`` has the settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.sweeps import figures
from experiments.sweeps.command import Results, experiment
from fedlearn.sweeps.results import points_of


def draw(results: Results, folder: Path) -> None:
    """Draw accuracy over rounds, a panel for each kind of data; write the table."""
    points = points_of(results)
    figures.by_round(folder, "accuracy_by_round", points, panels="data", lines="sent", ordered=False)
    figures.write_table(
        points, folder, caption="Accuracy after the last round, by what was dropped", plain=("sent", "everything")
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("granularity", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
