"""Figure 2 of the DP regression paper: error against the number of trees, at epsilon 5.

    FEDLEARN_DATA=... python -m experiments.private_trees.figure2 --out runs/dp_figure2.csv [--quick]

The rows are split among the trees, so more trees are smaller trees. Setting as in table 3. Every cross-validation is
kept in the CSV, so a killed run goes on; beside it are written ``*.table.csv`` and ``*.png``.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from experiments.private_trees.paper import NOT_PRIVATE, Cell, Results, Score, load_california
from fedlearn.trees.as_printed.growing import CHOICE_RATE

EPSILON = 5.0
TREES = (1, 2, 4, 8, 10, 15, 20, 25, 30, 50, 100, 200, 300, 400, 500)
QUICK_TREES = (1, 4, 10, 25, 50, 200)
COLUMNS = ("DPMean_Forest", "DPMedian_Forest")
ROWS_OF_TRAINING = 18_576  # nine folds of ten
Scores = Mapping[tuple[str, int], Score]  # (column, trees)


def best_of(column: str, scores: Scores) -> int:
    """Return the number of trees with the smallest error."""
    return min((trees for name, trees in scores if name == column), key=lambda trees: scores[column, trees].mae)


def rivals_of(column: str, scores: Scores, *, repeats: int) -> list[int]:
    """Return the numbers of trees that this many repeats cannot tell from the best one: within two standard errors."""
    best = scores[column, best_of(column, scores)]
    rivals = []
    for (name, trees), score in sorted(scores.items()):
        error = math.hypot(score.over_repeats, best.over_repeats) / math.sqrt(max(repeats - 1, 1))
        if name == column and 0 < score.mae - best.mae <= 2 * error:
            rivals.append(trees)
    return rivals


def print_table(scores: Scores, *, title: str) -> None:
    """Print the error of every number of trees, the best one marked."""
    table = Table(title=title)
    for name in ("trees", "rows per tree", *COLUMNS):
        table.add_column(name, justify="right")
    for trees in sorted({trees for _, trees in scores}):
        texts = [_marked(scores[column, trees], best_of(column, scores) == trees) for column in COLUMNS]
        table.add_row(str(trees), str(ROWS_OF_TRAINING // trees), *texts)
    Console(width=130).print(table)


def _marked(score: Score, is_best: bool) -> str:
    return f"{score.mae:.4f} (folds {score.over_folds:.3f}, repeats {score.over_repeats:.4f})" + (
        " *" if is_best else "  "
    )


def write_csv(path: Path, scores: Scores) -> None:
    """Write one line for each column and number of trees."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("trees", "column", "mae", "over_folds", "over_repeats"))
        for (column, trees), score in sorted(scores.items(), key=lambda item: (item[0][1], item[0][0])):
            numbers = (score.mae, score.over_folds, score.over_repeats)
            writer.writerow([trees, column, *(f"{number:.5f}" for number in numbers)])


def draw(path: Path, scores: Scores, *, title: str) -> None:
    """Draw both forests' error over the number of trees."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panel = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
    counts = sorted({trees for _, trees in scores})
    for column, color, marker in zip(COLUMNS, ("#1f6fb4", "#c8501e"), "os", strict=True):
        maes = [scores[column, trees].mae for trees in counts]
        spread = [scores[column, trees].over_repeats for trees in counts]
        best = best_of(column, scores)
        label = f"{column}: best at {best} trees, {scores[column, best].mae:.4f}"
        panel.errorbar(counts, maes, spread, fmt=f"{marker}-", color=color, markersize=4, capsize=2, label=label)
        panel.plot([best], [scores[column, best].mae], marker, color=color, markersize=10, fillstyle="none")
    panel.axvline(25, color="#777777", linestyle=":", linewidth=1, label="the paper's choice, 25")
    panel.set_xscale("log")
    ticks = [trees for trees in counts if trees not in (8, 15, 30, 300, 400)]
    panel.set_xticks(ticks, [str(trees) for trees in ticks])
    panel.minorticks_off()
    panel.set_xlabel("number of trees, on disjoint parts of the rows")
    panel.set_ylabel("mean absolute error, target scaled to [0, 1]")
    panel.set_title(title, fontsize=11)
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=160)
    plt.close(figure)


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
        rate = 0.0 if options.reading == "literal" else CHOICE_RATE
        cells = [Cell(column, EPSILON, n, trees, options.reading, rate) for n in range(1, repeats + 1)]
        scores[column, trees] = Score.of([results.errors_of(cell, X, y) for cell in cells])
    title = f"Figure 2: epsilon {EPSILON:g}, {options.reading} reading, repeats: {repeats}"
    print_table(scores, title=f"{title} (NOT PRIVATE)")
    write_csv(options.out.with_suffix(f".{options.reading}.table.csv"), scores)
    draw(options.out.with_suffix(f".{options.reading}.png"), scores, title=title)
    for column in COLUMNS:
        rivals = ", ".join(map(str, rivals_of(column, scores, repeats=repeats))) or "none"
        print(f"{column}: best at {best_of(column, scores)} trees; not told apart from it: {rivals}")


if __name__ == "__main__":
    main()
