"""Compare chains for both directions by accuracy against all bytes, up and down.

    FEDLEARN_DATA=... python -m experiments.sweeps.both_ways --quick

CIFAR-10, `cnn-large`, 100 nodes of 500 images, 10 of them in each of 200 rounds, so that four anchors of 50 rounds are
sent; bytes are those of the serialized messages, with the first state. ``configs/both_ways.toml`` has the settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments import looks
from experiments.sweeps import figures
from experiments.sweeps.command import Results, experiment
from fedlearn.core.metric import ACCURACY, ANCHORS_SENT, DOWNLINK_ERROR
from fedlearn.report.charts.axes import log_axis_of
from fedlearn.report.charts.plots import PALETTE, drawn, log_axis
from fedlearn.report.tables import Table
from fedlearn.runs.files import write_atomically
from fedlearn.sweeps.results import PlannedPoint, points_of

CHAINS, PLAIN = "chains", "plain"
HEADS = [CHAINS, "seeds", ACCURACY.title, "minus plain", "down", "up", "both", "anchors of instructions", "error down"]


def draw(results: Results, folder: Path) -> None:
    """Draw accuracy against all bytes and by round; write the table, smallest sum of bytes last."""
    points = sorted(points_of(results), key=_bytes, reverse=True)
    with drawn(folder, "accuracy_by_bytes", size=(6.5, 4.2)) as (panel,):
        styles = looks.styles_of([point.labels[CHAINS] for point in points], ordered=False)
        for point in points:
            label = point.labels[CHAINS]
            look = {"color": PALETTE[0], **styles[label], "linestyle": "none", "label": label}
            figures.last_accuracy(panel, [_bytes(point) / figures.MB], [point], **look)
        log_axis(panel, log_axis_of([_bytes(point) / figures.MB for point in points]).ticks)
        panel.set(xlabel="MB in both directions, all clients and rounds", ylabel="test accuracy, last round")
        looks.legend(panel, CHAINS)
    with drawn(folder, "accuracy_by_round", size=(6.5, 4.2)) as (panel,):
        figures.curves(panel, points, CHAINS, over="rounds", marker=None)
        panel.set_xlabel("round")
    plain = next((point for point in points if point.labels[CHAINS] == PLAIN), None)
    caption = "Accuracy after the last round; bytes: times fewer than plain; instructions that brought an anchor; "
    caption += "error of the state on its way down, least and largest of all rounds"
    lost = figures.minus_plain(points, CHAINS, PLAIN)
    rows = [_row(point, less, plain) for point, less in zip(points, lost, strict=True)]
    table = Table.of_texts("table", caption, HEADS, rows, words=1)
    table.show()
    write_atomically(folder / "table.md", table.as_markdown().encode())


def _bytes(point: PlannedPoint) -> float:
    return point.over_seeds("bytes_down").mean + point.over_seeds("bytes_up").mean


def _row(point: PlannedPoint, less: str, plain: PlannedPoint | None) -> list[str]:
    rows = [row for run in point.runs for row in run.rounds]
    sent, asked = (sum(row.get(name) or 0 for row in rows) for name in (ANCHORS_SENT.name, "cohort"))
    errors = [error for row in rows if (error := row.get(DOWNLINK_ERROR.name)) is not None]
    return [
        point.labels[CHAINS],
        str(len(point.runs)),
        figures.with_deviation(point.over_seeds(ACCURACY.name)),
        less,
        *(_times(point, plain, names) for names in (["bytes_down"], ["bytes_up"], ["bytes_down", "bytes_up"])),
        f"{sent / asked:.3f}" if errors else "",
        f"{np.min(errors):.3f} to {np.max(errors):.3f}" if errors else "",
    ]


def _times(point: PlannedPoint, plain: PlannedPoint | None, names: Sequence[str]) -> str:
    """Return how many times fewer bytes a point takes than plain runs."""
    if plain is None:
        return ""
    both = [sum(each.over_seeds(name).mean for name in names) for each in (plain, point)]
    return f"{both[0] / both[1]:.1f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("both_ways", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
