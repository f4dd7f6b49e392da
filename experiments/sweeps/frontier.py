"""Compare codecs by accuracy against uploaded bytes, with the Pareto front.

    FEDLEARN_DATA=... python -m experiments.sweeps.frontier --quick

CIFAR-10, `cnn-large`, 100 nodes of 500 images. Two claims of Konecny et al. 2016 (arXiv:1610.05492) can be read off
the table: random masks (``drop``) cost nothing in rounds, and rotation with 1/16 of the entries kept at 2 bits is 256
times smaller at little cost. ``configs/frontier.toml`` has the settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments import looks
from experiments.sweeps import figures
from experiments.sweeps.command import Results, experiment
from fedlearn.report.charts.axes import log_axis_of
from fedlearn.report.charts.curves import front_of
from fedlearn.report.charts.plots import PALETTE, drawn, log_axis
from fedlearn.report.number_rows import Row
from fedlearn.report.numbers import MeanSd
from fedlearn.sweeps.results import PlannedPoint, points_of

PLAIN = "identity"  # the label of the runs with which the others are compared
NEARLY = 0.95  # share of the plain run's last accuracy that counts as reached


def draw(results: Results, folder: Path) -> None:
    """Draw the frontier; write the table, smallest upload first."""
    points = sorted(points_of(results), key=_megabytes)
    places = [(_megabytes(point), point.over_seeds("accuracy").mean) for point in points]
    front = front_of(places, lower_is_better=False)
    _frontier(points, places, front, folder)
    caption = "Accuracy after the last round, by codec"
    figures.write_table(points, folder, caption=caption, plain=("codec", PLAIN), more=_columns(points, front))


def _frontier(
    points: Sequence[PlannedPoint], places: Sequence[tuple[float, float]], front: Sequence[bool], folder: Path
) -> None:
    """Draw each codec as a number, with a key beside the figure."""
    with drawn(folder, "frontier", size=(9.0, 5.2)) as (panel,):
        steps = [place for place, best in zip(places, front, strict=True) if best]
        panel.step(*zip(*steps, strict=True), where="post", color=PALETTE[1], linewidth=1.2, alpha=0.6, zorder=1)
        for number, (point, place, best) in enumerate(zip(points, places, front, strict=True), start=1):
            color, marker = (PALETTE[1], "o") if best else (PALETTE[0], "s")
            label = f"{number}  {point.labels['codec']}"
            figures.last_accuracy(panel, place[:1], [point], label=label, color=color, marker=marker, linestyle="none")
            panel.annotate(str(number), place, (5, 4), textcoords="offset points", fontsize=8, color=color)
        log_axis(panel, log_axis_of(megabytes for megabytes, _ in places).ticks)
        panel.set(
            title="round markers and line: the Pareto front",
            xlabel="MB uploaded by all clients, in all rounds", ylabel="test accuracy, last round",
        )  # fmt: skip
        looks.legend(panel, "codec")


def _megabytes(point: PlannedPoint) -> float:
    return point.over_seeds("bytes_up").mean / figures.MB


def _columns(points: Sequence[PlannedPoint], front: Sequence[bool]) -> dict[str, list[str]]:
    """Return the further columns of the table: the loss by compression in rounds, and who is on the front."""
    plain = next((point for point in points if point.labels["codec"] == PLAIN), None)
    on_front = ["yes" if best else "" for best in front]
    if plain is None:
        return {"on front": on_front}
    goal = NEARLY * plain.over_seeds("accuracy").mean
    return {
        f"rounds to {goal:.3f}": [_rounds_to(goal, point) for point in points],
        "on front": on_front,
    }


def _rounds_to(goal: float, point: PlannedPoint) -> str:
    """Return the mean over seeds of the first round with an accuracy; a dash if a seed never reached it."""
    first = [next((row["round_number"] for row in run.rounds if _reaches(row, goal)), None) for run in point.runs]
    reached = [number for number in first if number is not None]
    return f"{MeanSd.of(reached).mean:.3g}" if len(reached) == len(first) else "-"


def _reaches(row: Row, goal: float) -> bool:
    accuracy = row.get("accuracy")
    return accuracy is not None and accuracy >= goal


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("frontier", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
