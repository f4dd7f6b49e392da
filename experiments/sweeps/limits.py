"""Measure how far honest reports lie from the median report, to choose gate.max_ratio and gate.max_share.

    FEDLEARN_DATA=... python -m experiments.sweeps.limits --out runs/limits

All nodes are honest and both limits are off. Each report is compared with the medians of the round before, as the gate
would have done. ``configs/limits.toml`` has the settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from experiments.sweeps.command import Results, experiment
from fedlearn.config.tables.reports import GateSettings
from fedlearn.core.cohort import Fate, NodeReport, Typical
from fedlearn.report.tables import Table
from fedlearn.runs.files import write_atomically
from fedlearn.runs.log import EventTail
from fedlearn.sweeps.results import points_of
from server.gate.limits import Limits


def draw(results: Results, folder: Path) -> None:
    """Write the table: the ratios of norms and the shares of the weight, for each point."""
    points = points_of(results)
    rows = []
    for point in points:
        compared = np.array([pair for run in point.runs for pair in _compared(run.folder / "events.jsonl")])
        ratios, shares = compared.T
        rows.append(
            [*point.labels.values(), f"{len(ratios):,}", *(f"{np.quantile(ratios, q):.2f}" for q in (0.5, 0.99, 1.0))]
            + [f"{np.quantile(shares, q):.3f}" for q in (0.5, 0.99, 1.0)]
        )
    heads = [*points[0].labels, "reports", *(f"{what} {which}" for what in ("ratio", "share") for which in QUANTILES)]
    caption = "L2 norms of honest changes in usual ones of the round before, and shares of the weight"
    table = Table.of_texts("table", caption, heads, rows, words=len(points[0].labels))
    table.show()
    write_atomically(folder / "table.md", table.as_markdown().encode())


QUANTILES = ("median", "99 %", "largest")


def _compared(path: Path) -> Iterator[tuple[float, float]]:
    """Yield the ratio and the share of each report from the second round on."""
    typical: Typical | None = None
    for cohort in _cohorts(path):
        if typical is not None:
            limits = Limits(typical, len(cohort), GateSettings())
            for report in cohort:
                yield limits.ratio_of(report.norm, report.num_examples), limits.share_of(report.num_examples)
        typical = Typical.of(cohort)


def _cohorts(path: Path) -> Iterator[list[NodeReport]]:
    """Yield the reports of each committed round."""
    cohort: list[NodeReport] = []
    for event in EventTail(path).read():
        if event["event"] == Fate.REPORTED:
            cohort.append(NodeReport(len(cohort), Fate.REPORTED, event["examples"], norm=event["norm"]))
        elif event["event"] == "committed":
            yield cohort
            cohort = []


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and write its table."""
    experiment("limits", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
