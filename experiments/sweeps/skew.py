"""Compare codecs on labels skewed by Dirichlet(alpha): the smaller alpha, the more skewed.

    FEDLEARN_DATA=... python -m experiments.sweeps.skew --quick

``configs/skew.toml`` has the settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments import looks
from experiments.sweeps import figures
from experiments.sweeps.command import Results, experiment
from fedlearn.report.charts.plots import drawn
from fedlearn.sweeps.results import points_of

CODEC = "compression.codec"


def draw(results: Results, folder: Path) -> None:
    """Draw accuracy over rounds and over the skew; write the table."""
    points = points_of(results)
    figures.by_round(folder, "accuracy_by_round", points, panels="partition", lines=CODEC, ordered=False)
    codecs = figures.grouped(points, CODEC)
    styles = looks.styles_of(codecs, ordered=False)
    partitions = list(figures.grouped(points, "partition"))
    with drawn(folder, "accuracy_by_skew") as (panel,):
        for codec, mine in codecs.items():
            places = [partitions.index(point.labels["partition"]) for point in mine]
            figures.last_accuracy(panel, places, mine, label=codec, **styles[codec])
        panel.set_xticks(range(len(partitions)), partitions)
        panel.set(title="after the last round", xlabel="labels of the clients", ylabel="test accuracy")
        looks.legend(panel, "codec")
    figures.write_table(
        points, folder, caption="Accuracy after the last round, by skew and codec", plain=(CODEC, "identity")
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("skew", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
