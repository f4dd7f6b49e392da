"""Compare what few clients lose by dropping with codecs of as few bytes: a residual, or one or two bits an entry.

    FEDLEARN_DATA=... python -m experiments.sweeps.few_clients --quick

All clients take part in every round, on the first 8,000 images of CIFAR-10. ``configs/few_clients.toml`` has the
settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.sweeps import figures
from experiments.sweeps.command import Results, experiment
from fedlearn.data.cifar10 import load
from fedlearn.data.dataset import Dataset
from fedlearn.sweeps.results import points_of

IMAGES = 8_000  # of the 50,000, so that a run takes fifteen seconds


def images(data_dir: str = "") -> Dataset:
    """Return CIFAR-10 with its first training images alone."""
    whole = load(data_dir)
    first = whole.train.at(slice(0, IMAGES))
    return replace(whole, name="cifar10-8000", train=first, fingerprint=f"{whole.fingerprint}-{IMAGES}")


def draw(results: Results, folder: Path) -> None:
    """Draw accuracy over rounds, a panel for each number of clients; write the table."""
    points = points_of(results)
    figures.by_round(folder, "accuracy_by_round", points, panels="clients", lines="sent", ordered=False)
    figures.write_table(points, folder, caption="Accuracy after the last round, by codec", plain=("sent", "all"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("few_clients", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
