"""Compare accuracy by round with and without dropping: figures 8 and 9 of the federated paper side by side.

    FEDLEARN_DATA=... python -m experiments.sweeps.compression_ratio --quick

CIFAR-10, 100 nodes of 500 images, 20 of them in each round; each node sends all its weights, or a random share of
them. ``configs/compression_ratio.toml`` has the settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments import looks
from experiments.sweeps import figures
from experiments.sweeps.command import Results, experiment
from fedlearn.report.charts.axes import log_axis_of
from fedlearn.report.charts.plots import drawn, log_axis, whole_ticks
from fedlearn.sweeps.results import PlannedPoint, points_of

PLAIN = "1"  # the label of the runs that send everything


def draw(results: Results, folder: Path) -> None:
    """Draw accuracy over rounds and over uploaded bytes; write the table."""
    points = {point.labels["keep_ratio"]: point for point in points_of(results)}
    styles = looks.styles_of(points, ordered=True)
    _by_round(points, styles, folder)
    with drawn(folder, "accuracy_by_bytes") as (panel,):
        for ratio, point in points.items():
            figures.curve(panel, point, over="bytes", label=ratio, marker="o", markersize=3, **styles[ratio])
        log_axis(panel, log_axis_of(panel.dataLim.intervalx).ticks)
        panel.set(title="by what was sent", xlabel="MB uploaded by all clients", ylabel="test accuracy")
        looks.legend(panel, "share sent")
    figures.write_table(
        list(points.values()),
        folder,
        caption="Accuracy after the last round, by keep ratio",
        plain=("keep_ratio", PLAIN),
    )


def _by_round(points: Mapping[str, PlannedPoint], styles: Mapping[str, dict[str, Any]], folder: Path) -> None:
    with drawn(folder, "accuracy_by_round", columns=2) as (without, dropping):
        if PLAIN in points:
            figures.curve(without, points[PLAIN], color=figures.BLACK)
            figures.curve(dropping, points[PLAIN], color=figures.BLACK, linestyle=":", label="everything")
        for ratio in [ratio for ratio in points if ratio != PLAIN]:
            figures.curve(dropping, points[ratio], label=ratio, **styles[ratio])
        for panel, title in ((without, "without dropping"), (dropping, "with dropping")):
            whole_ticks(panel)
            panel.set(title=title, xlabel="round")
        without.set_ylabel("test accuracy")
        looks.legend(dropping, "share sent")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("compression_ratio", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
