"""Accuracy by number of clients, with and without dropping: the same data on 1 to 100 nodes.

    FEDLEARN_DATA=... python -m experiments.sweeps.number_of_clients --quick

All nodes take part in every round, so that each round trains on every image; one node is local learning.
``configs/number_of_clients.toml`` has the settings, `sweep` the folder that this writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.sweeps import figures, tables
from experiments.sweeps.results import Group, by_point
from experiments.sweeps.sweep import Results, experiment


def draw(results: Results, folder: Path) -> None:
    """Draw accuracy over rounds and over the number of clients; write the table."""
    groups = by_point(results)
    figures.by_round(folder, "accuracy_by_round", groups, panels="sent", lines="clients", ordered=True)
    ways: dict[str, list[Group]] = {}
    for group in groups:
        ways.setdefault(group[0].run.labels["sent"], []).append(group)
    styles = figures.styles_of(ways, ordered=False)
    with figures.drawn(folder, "accuracy_by_clients") as (panel,):
        for way, mine in ways.items():
            figures.line(panel, [_clients(group) for group in mine], mine, "accuracy", label=way, **styles[way])
        counts = sorted({_clients(group) for group in groups})
        panel.set_xscale("log")
        panel.set_xticks(counts, [str(count) for count in counts])
        panel.minorticks_off()
        figures.label_axes(panel, title="after the last round", x="clients, all in every round", y="test accuracy")
        figures.legend(panel, "sent")
    caption = "Accuracy after the last round, by number of clients"
    tables.write_table(tables.table_of(groups), folder, "table", caption=caption)


def _clients(group: Group) -> int:
    return group[0].run.config.clients


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("number_of_clients", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
