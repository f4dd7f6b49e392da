"""Compare accuracy by number of clients, with and without dropping: the same data on 1 to 100 nodes.

    FEDLEARN_DATA=... python -m experiments.sweeps.number_of_clients --quick

All nodes take part in every round, so that each round trains on every image; one node is local learning.
``configs/number_of_clients.toml`` has the settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments import looks
from experiments.sweeps import figures
from experiments.sweeps.command import Results, experiment
from fedlearn.report.charts.plots import drawn, log_axis
from fedlearn.sweeps.results import PlannedPoint, points_of


def draw(results: Results, folder: Path) -> None:
    """Draw accuracy over rounds and over the number of clients; write the table."""
    points = points_of(results)
    figures.by_round(folder, "accuracy_by_round", points, panels="sent", lines="clients", ordered=True)
    ways = figures.grouped(points, "sent")
    styles = looks.styles_of(ways, ordered=False)
    with drawn(folder, "accuracy_by_clients") as (panel,):
        for way, mine in ways.items():
            figures.last_accuracy(panel, [_clients(point) for point in mine], mine, label=way, **styles[way])
        log_axis(panel, [_clients(point) for point in points])
        panel.set(title="after the last round", xlabel="clients, all in every round", ylabel="test accuracy")
        looks.legend(panel, "sent")
    figures.write_table(
        points, folder, caption="Accuracy after the last round, by number of clients", plain=("sent", "all")
    )


def _clients(point: PlannedPoint) -> int:
    return int(point.runs[0].settings["clients"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("number_of_clients", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
