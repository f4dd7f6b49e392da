"""Accuracy by number of clients, with and without dropping: the same data on 1 to 100 nodes.

    FEDLEARN_DATA=... python -m experiments.number_of_clients --quick

All nodes take part in every round, so that each round trains on every image; one node is local learning.
``configs/number_of_clients.toml`` has the settings, `sweep` the folder that this writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments import figures
from experiments.figures import Group
from experiments.results import by_point
from experiments.sweep import Results, experiment


def draw(results: Results, folder: Path) -> None:
    """Draw accuracy over rounds and over the number of clients; write the table."""
    groups = by_point(results)
    counts = list(dict.fromkeys(group[0].run.labels["clients"] for group in groups))
    ways: dict[str, dict[str, Group]] = {}  # what is sent -> clients -> results
    for group in groups:
        labels = group[0].run.labels
        ways.setdefault(labels["sent"], {})[labels["clients"]] = group
    colors = dict(zip(counts, figures.shades(len(counts)), strict=True))
    with figures.drawn(folder, "accuracy_by_round", columns=len(ways)) as panels:
        for panel, (way, by_count) in zip(panels, ways.items(), strict=True):
            for count, group in by_count.items():
                figures.curve(panel, group, "accuracy", color=colors[count], label=count)
            figures.round_axis(panel)
            figures.label_axes(panel, title=f"sent: {way}", x="round", y="test accuracy" if panel is panels[0] else "")
        figures.legend(panels[-1], "clients")
    with figures.drawn(folder, "accuracy_by_clients") as (panel,):
        styles = zip(figures.COLOURS, figures.MARKERS, strict=True)
        for (way, by_count), (color, marker) in zip(ways.items(), styles, strict=False):
            places, mine = [int(count) for count in by_count], list(by_count.values())
            figures.line(panel, places, mine, "accuracy", color=color, marker=marker, label=way)
        panel.set_xscale("log")
        panel.set_xticks([int(count) for count in counts], counts)
        panel.minorticks_off()
        figures.label_axes(panel, title="after the last round", x="clients, all in every round", y="test accuracy")
        figures.legend(panel, "sent")
    caption = "Accuracy after the last round, by number of clients"
    figures.write_table(figures.table_of(groups), folder, "table", caption=caption)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("number_of_clients", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
