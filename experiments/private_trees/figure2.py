"""Figure 2 of the DP regression paper: error against the number of trees, at epsilon 5.

    FEDLEARN_DATA=... python -m experiments.private_trees.figure2 --out runs/dp_figure2.csv [--quick]

The rows are split among the trees, so more trees are smaller trees. Setting as in table 3. Every cross-validation is
kept in the CSV, so a killed run goes on; beside it are written ``*.table.csv``, ``*.png`` and ``*.svg``.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path

from rich.progress import track

from experiments.private_trees.as_printed.growing import CHOICE_RATE
from experiments.private_trees.paper import NOT_PRIVATE, SKLEARN_COLUMNS, Cell, Results, Score, load_california
from fedlearn.report.charts.plots import PALETTE, add_bars, drawn, log_axis
from fedlearn.report.numbers import MeanSd
from fedlearn.report.tables import Table
from fedlearn.runs.files import write_atomically

EPSILON = 5.0
TREES = (1, 2, 4, 8, 10, 15, 20, 25, 30, 50, 100, 200, 300, 400, 500)
QUICK_TREES = (1, 4, 10, 25, 50, 200)
COLUMNS = ("Python_Forest", "DPMean_Forest", "DPMedian_Forest")
ROWS_OF_TRAINING = 18_576  # nine folds of ten
Scores = Mapping[tuple[str, int], Score]  # (column, trees)


def cell_of(column: str, trees: int, repeat: int, reading: str) -> Cell:
    """Return one cross-validation of a curve; scikit-learn's curve has no epsilon and no reading."""
    if column in SKLEARN_COLUMNS:
        return Cell(column, math.inf, repeat, trees, "-", 0.0)
    return Cell(column, EPSILON, repeat, trees, reading, 0.0 if reading == "literal" else CHOICE_RATE)


def best_of(column: str, scores: Scores) -> int:
    """Return the number of trees with the smallest error."""
    return min((trees for name, trees in scores if name == column), key=lambda trees: scores[column, trees].mae)


def rivals_of(column: str, scores: Scores, *, repeats: int) -> list[int]:
    """Return the numbers of trees within two standard errors of the best, for this many repeats."""
    best = scores[column, best_of(column, scores)]
    rivals = []
    for (name, trees), score in sorted(scores.items()):
        error = math.hypot(score.over_repeats, best.over_repeats) / math.sqrt(max(repeats - 1, 1))
        if name == column and 0 < score.mae - best.mae <= 2 * error:
            rivals.append(trees)
    return rivals


def errors_table(scores: Scores, *, title: str) -> Table:
    """Return the error of every number of trees, the best one marked."""
    rows = []
    for trees in sorted({trees for _, trees in scores}):
        texts = [_marked(scores[column, trees], best_of(column, scores) == trees) for column in COLUMNS]
        rows.append([str(trees), str(ROWS_OF_TRAINING // trees), *texts])
    return Table.of_texts("figure2", title, ["trees", "rows per tree", *COLUMNS], rows)


def _marked(score: Score, is_best: bool) -> str:
    star = " *" if is_best else "  "
    return f"{score.mae:.4f} (folds {score.over_folds:.3f}, repeats {score.over_repeats:.4f}){star}"


def points_table(scores: Scores) -> Table:
    """Return one line for each column and number of trees."""
    rows = []
    for (column, trees), score in sorted(scores.items(), key=lambda item: (item[0][1], item[0][0])):
        numbers = (score.mae, score.over_folds, score.over_repeats)
        rows.append([str(trees), column, *(f"{number:.5f}" for number in numbers)])
    return Table.of_texts("points", "", ("trees", "column", "mae", "over_folds", "over_repeats"), rows)


def draw(out: Path, scores: Scores, *, title: str) -> None:
    """Draw the three forests' errors over the number of trees."""
    counts = sorted({trees for _, trees in scores})
    with drawn(out.parent, out.name, size=(7.5, 4.4)) as (panel,):
        for column, color, marker in zip(COLUMNS, PALETTE, "^os", strict=False):
            best = best_of(column, scores)
            label = f"{column}: best at {best} trees, {scores[column, best].mae:.4f}"
            of_counts = [scores[column, trees] for trees in counts]
            spreads = [MeanSd(score.mae, score.over_repeats) for score in of_counts]
            add_bars(panel, counts, spreads, marker=marker, color=color, label=label)
            panel.plot([best], [scores[column, best].mae], marker, color=color, markersize=10, fillstyle="none")
        panel.axvline(25, color="#777777", linestyle=":", linewidth=1, label="the paper's choice, 25")
        log_axis(panel, [trees for trees in counts if trees not in (8, 15, 30, 300, 400)])
        panel.set(title=title, xlabel="number of trees, on disjoint parts of the rows")
        panel.set_ylabel("mean absolute error, target scaled to [0, 1]")
        panel.legend()


def main() -> None:
    """Run what is missing, print the table, write it and draw it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("runs/dp_figure2.csv"), help="keeps every cross-validation")
    parser.add_argument("--reading", choices=["fitted", "literal"], default="fitted")
    parser.add_argument("--repeats", type=int, default=None, help="cross-validations of each point; default 5, quick 1")
    parser.add_argument("--quick", action="store_true", help="six numbers of trees, one repeat")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data-dir", help="folder of california_housing.parquet; default: FEDLEARN_DATA")
    options = parser.parse_args()
    repeats = options.repeats or (1 if options.quick else 5)
    print(NOT_PRIVATE, flush=True)
    results = Results(options.out, seed=options.seed)
    X, y = load_california(options.data_dir)
    scores: dict[tuple[str, int], Score] = {}
    points = [(column, trees) for trees in (QUICK_TREES if options.quick else TREES) for column in COLUMNS]
    for column, trees in track(points, description="cross-validating", transient=True):
        cells = [cell_of(column, trees, repeat, options.reading) for repeat in range(1, repeats + 1)]
        scores[column, trees] = Score.of([results.errors_of(cell, X, y) for cell in cells])
    title = f"Figure 2: epsilon {EPSILON:g}, {options.reading} reading, repeats: {repeats}"
    errors_table(scores, title=f"{title} (NOT PRIVATE)").show()
    out = options.out.with_suffix(f".{options.reading}")
    write_atomically(out.with_name(f"{out.name}.table.csv"), points_table(scores).as_csv().encode())
    draw(out, scores, title=title)
    for column in COLUMNS:
        rivals = ", ".join(map(str, rivals_of(column, scores, repeats=repeats))) or "none"
        print(f"{column}: best at {best_of(column, scores)} trees; within two standard errors: {rivals}")


if __name__ == "__main__":
    main()
