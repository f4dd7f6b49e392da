"""Compare asynchronous and synchronous rounds: trips and virtual time to an accuracy, as in FedBuff's experiment.

    FEDLEARN_DATA=... python -m experiments.sweeps.asynchronous --out runs/asynchronous

CIFAR-10 on 5,000 nodes of ten images each, of which 1,000 work at the same time. A trip is a report that counts.
``configs/asynchronous.toml`` has the settings; a trip's virtual time is |N(0, 1)| s, as in the paper.

Nguyen et al. 2022, "Federated learning with buffered asynchronous aggregation" (arXiv:2106.06639), section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np

from experiments.sweeps import figures
from experiments.sweeps.command import Results, experiment
from fedlearn.core.metric import STALENESS_MEAN, VIRTUAL_SECONDS
from fedlearn.report.charts.plots import drawn
from fedlearn.report.stored import StoredRun
from fedlearn.report.tables import Table
from fedlearn.runs.files import write_atomically
from fedlearn.sweeps.results import points_of

TARGETS = (0.2, 0.25, 0.3)  # accuracies; one that is reached between two evaluations counts at the second of them
SCHEDULE = "schedule"
HEADS = tuple(f"{what} to {target:.0%}" for target in TARGETS for what in ("trips", "seconds"))
FURTHER = ("trips", "headline", "staleness", "in vain")


def draw(results: Results, folder: Path) -> None:
    """Draw accuracy over trips and over virtual time; write the table, means over seeds."""
    points = points_of(results)
    for over, unit in (("reports", "trips"), ("hours", "virtual minutes")):
        with drawn(folder, f"accuracy_by_{unit.replace(' ', '_')}") as (panel,):
            figures.curves(panel, points, SCHEDULE, over=over, marker=None)
            panel.set_xlabel(unit)
            panel.locator_params(axis="x", nbins=6)
    rows = []
    for point in points:
        numbers = np.array([measured(run) for run in point.runs]).mean(0)  # (columns,); nan if a seed has not
        *until, trips, accuracy, staleness, vain = numbers
        shown = ["-" if np.isnan(number) else f"{number:,.{place % 2}f}" for place, number in enumerate(until)]
        further = [f"{trips:,.0f}", f"{accuracy:.3f}", f"{staleness:.1f}", f"{vain:.0%}"]
        rows.append([point.labels[SCHEDULE], *shown, *further])
    caption = "Client trips and virtual seconds to an accuracy, means over seeds"
    table = Table.of_texts("table", caption, [SCHEDULE, *HEADS, *FURTHER], rows, words=1)
    table.show()
    write_atomically(folder / "table.md", table.as_markdown().encode())


def measured(run: StoredRun) -> list[float]:
    """Return the columns of `HEADS` and `FURTHER` of one run."""
    metric = run.metrics.headline
    assert metric is not None
    trips = list(accumulate(value or 0.0 for value in run.column("reported")))
    places = list(zip(run.column(metric.name), trips, run.column(VIRTUAL_SECONDS.name), strict=True))
    until: list[float] = []
    for target in TARGETS:
        reached = ((count, seconds or 0.0) for value, count, seconds in places if (value or 0.0) >= target)
        until += next(reached, (np.nan, np.nan))
    staleness = [value for value in run.column(STALENESS_MEAN.name) if value is not None]
    further = [trips[-1], run.latest(metric.name) or 0.0, float(np.mean(staleness or [0.0]))]
    return [*until, *further, 1 - trips[-1] / run.total("cohort")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("asynchronous", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
