"""Table 3 of the DP regression paper beside our run of the printed algorithm.

    FEDLEARN_DATA=... python -m experiments.private_trees.table3 --out runs/dp_table3.csv [--quick] [--reading READING]

Seven methods, epsilon 0.25 to 64, unshuffled 10-fold cross-validation on California Housing, mean absolute error of the
scaled target. Every cross-validation is kept in the CSV, so a killed run continues from there. Beside it are written
``*.table.csv`` (each cell, ours and printed), ``*.tex``, ``*.png`` and ``*.svg``, with the reading in their names.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from rich.progress import track

from experiments.private_trees.as_printed.growing import CHOICE_RATE
from experiments.private_trees.paper import (
    COLUMNS,
    EPSILONS,
    NOT_PRIVATE,
    PRINTED,
    SKLEARN_COLUMNS,
    Cell,
    Results,
    Score,
    load_california,
)
from experiments.private_trees.writing import write
from fedlearn.report.charts.kinds import Line
from fedlearn.report.charts.plots import PALETTE, add_bars, add_line, drawn, legend_below, log_axis
from fedlearn.report.numbers import MeanSd
from fedlearn.report.tables import Table

QUICK_EPSILONS = (0.25, 4.0, 64.0)
Scores = Mapping[tuple[str, float], Score]  # (column, epsilon)
Places = Iterable[tuple[str, float]]


def cells_of(column: str, epsilon: float, *, repeats: int, reading: str, rate: float) -> list[Cell]:
    """Return the cross-validations of one cell of the table."""
    if column in SKLEARN_COLUMNS:  # no epsilon: every row shows the same runs
        epsilon = math.inf
    if column in SKLEARN_COLUMNS or column == "DPMean":
        reading, rate = "-", 0.0
    elif reading == "literal":
        rate = 0.0
    return [Cell(column, epsilon, repeat, reading=reading, rate=rate) for repeat in range(1, repeats + 1)]


def deviations_of(scores: Scores, *, title: str) -> Table:
    """Return each cell as ours, printed and deviation, and each column's root mean square deviation below."""
    rows = []
    for epsilon in epsilons_of(scores):
        cells = ((scores[column, epsilon].mae, printed_of(column, epsilon)[0]) for column in COLUMNS)
        texts = (f"{1e3 * ours:.1f} / {1e3 * printed:.1f} ({1e3 * (ours - printed):+.1f})" for ours, printed in cells)
        rows.append([f"{epsilon:g}", *texts])
    foot = ["rms", *(f"{1e3 * deviation_of(column, scores):.1f}" for column in COLUMNS)]
    title += ": ours / printed (deviation), in thousandths of the target's range"
    return Table.of_texts("deviations", title, ["eps", *COLUMNS], rows, foot=[foot])


def epsilons_of(scores: Scores) -> list[float]:
    """Return the values of epsilon that have scores, smallest first: the rows of the tables."""
    return sorted({epsilon for _, epsilon in scores})


def printed_of(column: str, epsilon: float) -> tuple[float, float]:
    """Return the printed mean absolute error and its deviation over folds."""
    maes, deviations = PRINTED[column]
    row = EPSILONS.index(epsilon)
    return maes[row], deviations[row]


def deviation_of(column: str, scores: Scores) -> float:
    """Return the root mean square of ours less printed over the rows of a column."""
    squares = [(score.mae - printed_of(column, row)[0]) ** 2 for (name, row), score in scores.items() if name == column]
    return math.sqrt(sum(squares) / len(squares))


def cells_table(scores: Scores) -> Table:
    """Return one line for each cell, ours and printed."""
    heads = ("epsilon", "column", "mae", "over_folds", "over_repeats", "printed_mae", "printed_over_folds", "deviation")
    rows = []
    for column, epsilon in sorted(scores, key=lambda cell: (cell[1], COLUMNS.index(cell[0]))):
        score, (mae, over_folds) = scores[column, epsilon], printed_of(column, epsilon)
        numbers = (score.mae, score.over_folds, score.over_repeats, mae, over_folds, score.mae - mae)
        rows.append([f"{epsilon:g}", column, *(f"{number:.5f}" for number in numbers)])
    return Table.of_texts("cells", "", heads, rows)


def beside_table(scores: Scores) -> Table:
    """Return ours above the printed value, deviations over folds in brackets."""
    rows = []
    for epsilon in epsilons_of(scores):
        ours = ((score.mae, score.over_folds) for score in (scores[column, epsilon] for column in COLUMNS))
        printed = (printed_of(column, epsilon) for column in COLUMNS)
        rows.append([f"{epsilon:g}", *(f"{mae:.4f} ({over_folds:.3f})" for mae, over_folds in ours)])
        rows.append(["printed", *(f"{mae:.4f} ({over_folds:.3f})" for mae, over_folds in printed)])
    foot = ["rms", *(f"{deviation_of(column, scores):.4f}" for column in COLUMNS)]
    return Table.of_texts("beside", "", ["ε", *COLUMNS], rows, foot=[foot])


def draw(out: Path, scores: Scores) -> None:
    """Draw one panel for each DP column, ours and printed, with the three columns that need no tree or no privacy."""
    epsilons = epsilons_of(scores)
    references = {"Python_Tree": ":", "Python_Forest": "--", "DPMean": "-."}
    with drawn(out.parent, out.name, rows=2, columns=2, size=(4.5, 3.3)) as panels:
        for panel, column in zip(panels, [name for name in COLUMNS if name not in references], strict=True):
            ours = [scores[column, epsilon] for epsilon in epsilons]
            low, high = (tuple(score.mae + sign * score.over_folds for score in ours) for sign in (-1, 1))
            maes = tuple(score.mae for score in ours)
            add_line(
                panel, Line("ours, spread of folds", 0, tuple(epsilons), maes, low, high), marker="o", markersize=4
            )
            printed = [MeanSd(*printed_of(column, epsilon)) for epsilon in epsilons]
            add_bars(panel, epsilons, printed, label="printed", color=PALETTE[1], linestyle="--", marker="s")
            for name, dashes in references.items():
                level = scores[name, epsilons[-1]].mae
                panel.axhline(level, color="#777777", linestyle=dashes, linewidth=1, label=f"{name} (ours)")
            panel.set_title(f"{column}: rms deviation {deviation_of(column, scores):.4f}")
            log_axis(panel, epsilons)
            panel.set_ylim(0, 0.65)
        for panel in panels[2:]:
            panel.set_xlabel("epsilon as the paper counts it (not the true privacy loss)")
        for panel in panels[::2]:
            panel.set_ylabel("mean absolute error, of [0, 1]")
        legend_below(panels, columns=3)


def run(results: Results, options: argparse.Namespace, *, show: Callable[[list[tuple[str, float]]], Places]) -> Scores:
    """Return the score of every cell; runs the cells that the file does not have."""
    X, y = load_california(options.data_dir)
    epsilons = QUICK_EPSILONS if options.quick else EPSILONS
    scores = {}
    choice = {"repeats": options.repeats, "reading": options.reading, "rate": options.choice_rate}
    for column, epsilon in show([(column, epsilon) for epsilon in epsilons for column in COLUMNS]):
        scores[column, epsilon] = Score.of([results.errors_of(c, X, y) for c in cells_of(column, epsilon, **choice)])
    return scores


def main() -> None:
    """Run what is missing, print the table, write it and draw it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("runs/dp_table3.csv"), help="keeps every cross-validation")
    parser.add_argument("--reading", choices=["fitted", "literal"], default="fitted")
    parser.add_argument("--choice-rate", type=float, default=CHOICE_RATE, help="r of the fitted exp(r beta u)")
    parser.add_argument("--repeats", type=int, default=None, help="cross-validations of each cell; default 5, quick 1")
    parser.add_argument("--quick", action="store_true", help="three values of epsilon, one repeat")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data-dir", help="folder of california_housing.parquet; default: FEDLEARN_DATA")
    options = parser.parse_args()
    options.repeats = options.repeats or (1 if options.quick else 5)
    print(NOT_PRIVATE, flush=True)
    results = Results(options.out, seed=options.seed)
    scores = run(results, options, show=lambda places: track(places, description="cross-validating", transient=True))
    is_usual = options.reading == "literal" or options.choice_rate == CHOICE_RATE
    variant = options.reading + ("" if is_usual else f" (rate {options.choice_rate:g})")
    name = f"Table 3, {variant} reading, repeats: {options.repeats}"
    suffix = options.reading + ("" if is_usual else f"-rate-{options.choice_rate:g}")
    deviations_of(scores, title=f"{name} (NOT PRIVATE)").show()
    out = options.out.with_suffix(f".{suffix}")
    caption = f"{name}. Not private. Mean absolute error, in brackets over folds: ours, and below it as printed"
    write(out, cells_table(scores), beside_table(scores), caption)
    draw(out, scores)


if __name__ == "__main__":
    main()
