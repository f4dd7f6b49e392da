"""Accuracy by round with and without dropping: the federated paper's figures 8 and 9 side by side.

    FEDLEARN_DATA=... python -m experiments.sweeps.compression_ratio --quick

CIFAR-10, 100 nodes of 500 images, 20 of them in each round; each node sends all its weights, or a random share of
them. ``configs/compression_ratio.toml`` has the settings, `sweep` the folder that this writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.sweeps import figures, tables
from experiments.sweeps.results import Group, by_point
from experiments.sweeps.sweep import Results, experiment

PLAIN = "1"  # the label of the runs that send everything


def draw(results: Results, folder: Path) -> None:
    """Draw accuracy over rounds and over uploaded bytes; write the table."""
    groups = {group[0].run.labels["keep_ratio"]: group for group in by_point(results)}
    colors = dict(zip(groups, figures.shades(len(groups)), strict=True))
    _by_round(groups, colors, folder)
    with figures.drawn(folder, "accuracy_by_bytes") as (panel,):
        for ratio, group in groups.items():
            style = {"color": colors[ratio], "marker": "o", "markersize": 3}
            figures.curve(panel, group, "accuracy", over="bytes", label=ratio, **style)
        panel.set_xscale("log")
        figures.label_axes(panel, title="by what was sent", x="MB uploaded by all nodes", y="test accuracy")
        figures.legend(panel, "share sent")
    caption = "Accuracy after the last round, by keep ratio"
    tables.write_table(tables.table_of(list(groups.values())), folder, "table", caption=caption)


def _by_round(groups: Mapping[str, Group], colors: Mapping[str, object], folder: Path) -> None:
    with figures.drawn(folder, "accuracy_by_round", columns=2) as (without, dropping):
        if PLAIN in groups:
            figures.curve(without, groups[PLAIN], "accuracy", color=figures.BLACK)
            figures.curve(dropping, groups[PLAIN], "accuracy", color=figures.BLACK, linestyle=":", label="everything")
        for ratio in [ratio for ratio in groups if ratio != PLAIN]:
            figures.curve(dropping, groups[ratio], "accuracy", color=colors[ratio], label=ratio)
        for panel in (without, dropping):
            figures.round_axis(panel)
        figures.label_axes(without, title="without dropping", x="round", y="test accuracy")
        figures.label_axes(dropping, title="with dropping", x="round")
        figures.legend(dropping, "share sent")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("compression_ratio", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
