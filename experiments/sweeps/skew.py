"""Codecs on skewed labels: nodes draw their label distributions from a Dirichlet distribution; small alpha is skewed.

    FEDLEARN_DATA=... python -m experiments.sweeps.skew --quick

``configs/skew.toml`` has the settings, `sweep` the folder that this writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.sweeps import figures, tables
from experiments.sweeps.results import Group, by_point
from experiments.sweeps.sweep import Results, experiment

CODEC = "compression.codec"


def draw(results: Results, folder: Path) -> None:
    """Draw accuracy over rounds and over the skew; write the table."""
    groups = by_point(results)
    figures.by_round(folder, "accuracy_by_round", groups, panels="partition", lines=CODEC, ordered=False)
    codecs: dict[str, list[Group]] = {}
    for group in groups:
        codecs.setdefault(group[0].run.labels[CODEC], []).append(group)
    styles = figures.styles_of(codecs, ordered=False)
    partitions = list(dict.fromkeys(group[0].run.labels["partition"] for group in groups))
    with figures.drawn(folder, "accuracy_by_skew") as (panel,):
        for codec, mine in codecs.items():
            places = [partitions.index(group[0].run.labels["partition"]) for group in mine]
            figures.line(panel, places, mine, "accuracy", label=codec, **styles[codec])
        panel.set_xticks(range(len(partitions)), partitions)
        figures.label_axes(panel, title="after the last round", x="labels of the nodes", y="test accuracy")
        figures.legend(panel, "codec")
    caption = "Accuracy after the last round, by skew and codec"
    tables.write_table(tables.table_of(groups), folder, "table", caption=caption)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("skew", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
