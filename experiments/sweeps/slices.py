"""Compare three ways to give clients slices of five sizes with FedAvg, by the smallest and by the whole model.

    FEDLEARN_DATA=... python -m experiments.sweeps.slices --quick

A client has the ratio 1, 1/2, 1/4, 1/8 or 1/16, in turns. FedAvg makes a model of the clients that can hold the whole,
too. Accuracy is that of the whole model, or of the smallest. Seconds are virtual: a device of ratio r is r times as
fast as one of ratio 1. ``configs/slices.toml`` has the settings. On a GPU ``--set model.name=resnet18 --only
method=heterofl ...`` compares the same methods, but the smallest, by ResNet-18.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from experiments.sweeps import figures
from experiments.sweeps.command import Results, experiment
from fedlearn.data.data_spec import DataSpec
from fedlearn.devices import Fleet
from fedlearn.models.networks.cnn import CNN
from fedlearn.models.slices.slicing import ordered_units
from fedlearn.models.slices.tracing import sliced_module
from fedlearn.models.torch.torch_model import TorchModel
from fedlearn.report.charts.plots import drawn, whole_ticks
from fedlearn.sweeps.results import points_of

RATIOS = (1.0, 0.5, 0.25, 0.125, 0.0625)
SMALLEST = RATIOS[-1]
FASTEST = 0.0136  # seconds of training an example, the median of the devices ``phones``


def five_speeds(*, clients: int, seed: int, examples: NDArray[np.int64], effort: float = 1.0) -> Fleet:
    """Return devices as fast as their ratios; `effort` is the multiplications of the model beside those of the CNN."""
    seconds = FASTEST * effort / np.resize(RATIOS, clients)
    return Fleet.of(clients, seed, seconds_per_example=seconds, down=750e3, up=250e3)


def smallest_cnn(spec: DataSpec) -> nn.Module:
    """Return the CNN with a sixteenth of the units of each hidden layer: 434 parameters for CIFAR-10."""
    return sliced_module(TorchModel(lambda: CNN(spec), spec), "cnn").cut(ordered_units, SMALLEST)


def draw(results: Results, folder: Path) -> None:
    """Draw accuracy over rounds; write the table."""
    points = points_of(results)
    down = [f"{point.over_seeds('bytes_down').mean / figures.MB:,.2f}" for point in points]
    seconds = [f"{point.over_seeds('virtual_seconds').mean:,.0f}" for point in points]
    with drawn(folder, "accuracy_by_round", columns=1, size=(7, 3.9)) as (panel,):
        figures.curves(panel, points, "method", over="rounds")
        whole_ticks(panel)
        panel.set(xlabel="round")
    figures.write_table(
        points, folder, caption="Accuracy after the last round, by slices", plain=("method", "fedavg"),
        more={"MB down": down, "seconds": seconds},
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("slices", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
