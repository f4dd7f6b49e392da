"""Compare secure sums with plain reports: accuracy, seed by seed, and bytes.

    FEDLEARN_DATA=... python -m experiments.sweeps.secure_sums --out runs/secure_sums

``configs/secure_sums.toml`` has the settings. A run without masks has the SHA-256 of the masked one, and sends as many
bytes: ``--set secure.sums=masked --only "reports=secure, 16 bits"`` shows it, in another folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments.intervals import Interval
from experiments.sweeps import figures
from experiments.sweeps.command import Results, experiment
from fedlearn.core.metric import ACCURACY
from fedlearn.report.charts.plots import drawn
from fedlearn.report.tables import Table
from fedlearn.runs.files import write_atomically
from fedlearn.sweeps.results import PlannedPoint, points_of

REPORTS = "reports"
BESIDE = {
    "secure, 16 bits": "plain",
    "secure, 12 bits": "plain",
    "secure, groups of 4, drop 0.1": "plain, drop 0.1",
}  # each with what it is compared with


def draw(results: Results, folder: Path) -> None:
    """Draw accuracy over rounds; write the table of accuracies, of differences seed by seed, and of bytes."""
    points = points_of(results)
    with drawn(folder, "accuracy_by_round", size=(5.5, 3.9)) as (panel,):
        figures.curves(panel, points, REPORTS, over="rounds", marker=None)
        panel.set_xlabel("round")
    by_label = {point.labels[REPORTS]: point for point in points}
    rows = [_row(label, point, by_label) for label, point in by_label.items()]
    heads = [REPORTS, "accuracy", "difference, seed by seed", "up, MB a round", "SHA-256 by seed"]
    caption = "Accuracy after the last round: mean and spread over seeds; mean difference with a 95 % t interval"
    table = Table.of_texts("table", caption, heads, rows, words=1)
    table.show()
    write_atomically(folder / "table.md", table.as_markdown().encode())


def _row(label: str, point: PlannedPoint, by_label: Mapping[str, PlannedPoint]) -> list[str]:
    accuracy = point.over_seeds(ACCURACY.name)
    up = np.mean([run.total("bytes_up") / run.summary["rounds"] / 1e6 for run in point.runs])
    hashes = ", ".join(f"{run.summary['seed']}: {run.summary['model_sha256'][:12]}" for run in point.runs)
    difference = _difference(point, by_label.get(BESIDE.get(label, "")))
    return [label, figures.with_deviation(accuracy), difference, f"{up:.3f}", hashes]


def _difference(point: PlannedPoint, other: PlannedPoint | None) -> str:
    """Return the mean difference of the runs of the same seed, with its interval; "-" without such runs."""
    found = figures.differences(point, other)
    return Interval.of(found).text(signed=True) if found else "-"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("secure_sums", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
