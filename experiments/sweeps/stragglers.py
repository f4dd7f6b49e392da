"""Compare policies for stragglers: virtual time to an accuracy, the accuracy on slow devices, and wasted work.

    python -m experiments.sweeps.stragglers --out runs/stragglers

A hundred phones, of which the slow ones have more data, on `digits`, a small data set: the experiment shows policies,
not accuracies to report. ``configs/stragglers.toml`` has the settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.sweeps import figures
from experiments.sweeps.command import Results, experiment
from fedlearn.config import RunConfig, config_from
from fedlearn.core.metric import TEST_EXAMPLES, VIRTUAL_SECONDS, virtual_time
from fedlearn.devices import load_devices
from fedlearn.report.charts.plots import drawn, log_axis
from fedlearn.report.numbers import MeanSd
from fedlearn.report.stored import StoredRun
from fedlearn.report.tables import Table
from fedlearn.runs.files import write_atomically
from fedlearn.runs.nodes_csv import PARTITION, ROUND, read_nodes
from fedlearn.sweeps.results import points_of

TARGET = 0.7  # of the headline metric
POLICY = "policy"
SLOW = "slow"
HEADS = (
    "virtual minutes",
    f"minutes to {TARGET}",
    "headline",
    "on slow devices",
    "reports of slow",
    "MB up",
    "in vain",
)


def draw(results: Results, folder: Path) -> None:
    """Draw accuracy over virtual time; write the table: a row for each policy, means over seeds."""
    rows = []
    points = points_of(results)
    with drawn(folder, "accuracy_by_time", size=(7.0, 4.2)) as (panel,):
        figures.curves(panel, points, POLICY, over="hours", band=False)
        log_axis(panel, (1, 2, 5, 10, 20, 50))
        panel.set(xlabel="virtual minutes", ylabel="test accuracy, mean over seeds")
    for point in points:
        numbers = np.array([measured(run) for run in point.runs])  # (seeds, columns)
        minutes, _, _, slow, share, size, vain = numbers.mean(0)
        until = numbers[:, 1][~np.isnan(numbers[:, 1])]
        reached = f"{until.mean():.1f} ({len(until)} of {len(numbers)})" if len(until) else "-"
        shown = [
            f"{minutes:.1f}",
            reached,
            figures.with_deviation(MeanSd.of(numbers[:, 2].tolist()), places=3),
            f"{slow:.3f}",
            f"{share:.0%}",
            f"{size:.0f}",
            f"{vain:.0%}",
        ]
        rows.append([*point.labels.values(), *shown])
    caption = "Straggler policies, means over seeds"
    table = Table.of_texts("table", caption, [*points[0].labels, *HEADS], rows, words=len(points[0].labels))
    table.show()
    write_atomically(folder / "table.md", table.as_markdown().encode())


def measured(run: StoredRun) -> list[float]:
    """Return the columns of `HEADS` of one run."""
    metric = run.metrics.headline
    assert metric is not None
    seconds, reported, asked = run.column(VIRTUAL_SECONDS.name), run.total("reported"), run.total("cohort")
    reached = (s for s, value in zip(seconds, run.column(metric.name), strict=True) if (value or 0) >= TARGET)
    of_slow = virtual_time([SLOW])[-1].name
    return [
        (seconds[-1] or 0.0) / 60, (next(reached, None) or np.nan) / 60, run.latest(metric.name) or np.nan,
        on_slow_devices(run, metric.name), run.total(of_slow) / reported, run.total("bytes_up") / 1e6,
        1 - reported / asked,
    ]  # fmt: skip


def on_slow_devices(run: StoredRun, metric: str) -> float:
    """Return the mean of a metric over the examples on slow devices, after the last round."""
    last = pd.DataFrame(read_nodes(run.folder)).dropna(subset=[metric])
    last = last[last[ROUND] == last[ROUND].max()]
    config: RunConfig = config_from(run.settings)
    held = np.zeros(config.clients, np.int64)
    held[last[PARTITION]] = last[TEST_EXAMPLES]  # all examples of a node are for training
    fleet = load_devices(config.devices, clients=config.clients, seed=config.seed, examples=held)
    slow = last[[fleet.group_of(node) == SLOW for node in last[PARTITION]]]
    return float(np.average(slow[metric], weights=slow[TEST_EXAMPLES]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and write its table."""
    experiment("stragglers", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
