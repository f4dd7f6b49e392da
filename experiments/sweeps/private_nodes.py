"""Compare accuracies of training that protects nodes, by epsilon and by the number of nodes.

    FEDLEARN_DATA=... python -m experiments.sweeps.private_nodes --quick

CIFAR-10, `cnn`, 60 rounds: 1,000 nodes of 50 images, each of which takes part with probability 0.1, and 10,000 nodes of
5 images, with probability 0.05; next letters by `lstm` on 100 nodes, each with the texts of a topic, with probability
0.2. Delta 1e-5, central noise, an account of Poisson sampling.
``configs/private_nodes.toml`` has the settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.sweeps import figures
from experiments.sweeps.command import Results, experiment
from fedlearn.core.metric import ACCURACY, EPSILON
from fedlearn.report.charts.plots import drawn
from fedlearn.report.tables import Table
from fedlearn.runs.files import write_atomically
from fedlearn.sweeps.results import PlannedPoint, points_of

NODES = "nodes"
NOISE = "noise_multiplier"
HEADS = [NODES, EPSILON.name, "noise multiplier", "seeds", ACCURACY.title]


def draw(results: Results, folder: Path) -> None:
    """Write the table, and draw accuracy by round of each epsilon, a panel for each number of nodes."""
    points = points_of(results)
    table = Table.of_texts("table", "Accuracy after the last round", HEADS, [_row(point) for point in points], words=2)
    table.show()
    write_atomically(folder / "table.md", table.as_markdown().encode())
    numbers = list(dict.fromkeys(point.labels[NODES] for point in points))
    with drawn(folder, "accuracy_by_round", size=(4.2, 3.6), columns=len(numbers)) as panels:
        for panel, number in zip(panels, numbers, strict=True):
            figures.curves(
                panel, [each for each in points if each.labels[NODES] == number], EPSILON.name, over="rounds"
            )
            panel.set(title=f"clients: {number}", xlabel="round")


def _row(point: PlannedPoint) -> list[str]:
    noise = point.runs[0].summary.get(NOISE)
    return [
        point.labels[NODES],
        point.labels[EPSILON.name],
        "" if noise is None else f"{noise:.3f}",
        str(len(point.runs)),
        figures.with_deviation(point.over_seeds(ACCURACY.name)),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("private_nodes", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
