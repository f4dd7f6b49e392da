"""Table 3 of the DP regression paper beside our run of the printed algorithm.

    FEDLEARN_DATA=... python -m experiments.private_trees.table3 --out runs/dp_table3.csv [--quick] [--reading READING]

Seven methods, epsilon 0.25 to 64, unshuffled 10-fold cross-validation on California Housing, mean absolute error of the
scaled target. Every cross-validation is kept in the CSV, so a killed run goes on where it was. Beside it are written
``*.table.csv`` (each cell, ours and printed), ``*.tex`` and ``*.png``, with the reading in their names.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

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
from fedlearn.trees.as_printed.growing import CHOICE_RATE

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


def print_table(scores: Scores, *, title: str) -> None:
    """Print each cell as ours, printed and deviation, and each column's root mean square deviation."""
    table = Table(title=title, caption="ours / printed (deviation), in thousandths of the target's range")
    table.add_column("eps", justify="right")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for epsilon in sorted({epsilon for _, epsilon in scores}):
        cells = ((scores[column, epsilon].mae, printed_of(column, epsilon)[0]) for column in COLUMNS)
        texts = [f"{1e3 * ours:.1f} / {1e3 * printed:.1f} ({1e3 * (ours - printed):+.1f})" for ours, printed in cells]
        table.add_row(f"{epsilon:g}", *texts)
    table.add_section()
    table.add_row("rms", *(f"{1e3 * deviation_of(column, scores):.1f}" for column in COLUMNS))
    Console(width=190).print(table)


def printed_of(column: str, epsilon: float) -> tuple[float, float]:
    """Return the printed mean absolute error and its deviation over folds."""
    maes, deviations = PRINTED[column]
    row = EPSILONS.index(epsilon)
    return maes[row], deviations[row]


def deviation_of(column: str, scores: Scores) -> float:
    """Return the root mean square of ours less printed over the rows of a column."""
    squares = [(score.mae - printed_of(column, row)[0]) ** 2 for (name, row), score in scores.items() if name == column]
    return math.sqrt(sum(squares) / len(squares))


def write_csv(path: Path, scores: Scores) -> None:
    """Write one line for each cell, ours and printed."""
    fields = (
        "epsilon",
        "column",
        "mae",
        "over_folds",
        "over_repeats",
        "printed_mae",
        "printed_over_folds",
        "deviation",
    )
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(fields)
        for (column, epsilon), score in sorted(
            scores.items(), key=lambda item: (item[0][1], COLUMNS.index(item[0][0]))
        ):
            mae, over_folds = printed_of(column, epsilon)
            ours = (score.mae, score.over_folds, score.over_repeats)
            numbers = [f"{number:.5f}" for number in (*ours, mae, over_folds, score.mae - mae)]
            writer.writerow([f"{epsilon:g}", column, *numbers])


def write_latex(path: Path, scores: Scores, *, caption: str) -> None:
    """Write a table for the booktabs package: ours above the printed value, deviations over folds in brackets."""
    epsilons = sorted({epsilon for _, epsilon in scores})
    names = " & ".join(column.replace("_", r"\_") for column in COLUMNS)
    lines = [r"\begin{table}", r"\centering\small", rf"\caption{{{caption}}}"]
    lines += [rf"\begin{{tabular}}{{r{'r' * len(COLUMNS)}}}", r"\toprule", rf"$\varepsilon$ & {names} \\", r"\midrule"]
    for epsilon in epsilons:
        ours = [f"{scores[column, epsilon].mae:.4f} ({scores[column, epsilon].over_folds:.3f})" for column in COLUMNS]
        printed = ["\\textit{{{:.4f} ({:.3f})}}".format(*printed_of(column, epsilon)) for column in COLUMNS]
        lines += [rf"{epsilon:g} & {' & '.join(ours)} \\", rf" & {' & '.join(printed)} \\[2pt]"]
    deviations = " & ".join(f"{deviation_of(column, scores):.4f}" for column in COLUMNS)
    lines += [r"\midrule", rf"rms & {deviations} \\", r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]
    path.write_text("\n".join(lines))


def draw(path: Path, scores: Scores, *, title: str) -> None:
    """Draw one panel for each DP column, ours and printed, with the three columns that need no tree or no privacy."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    epsilons = sorted({epsilon for _, epsilon in scores})
    references = {"Python_Tree": ("#777777", ":"), "Python_Forest": ("#777777", "--"), "DPMean": ("#777777", "-.")}
    figure, panels = plt.subplots(2, 2, figsize=(9, 6.6), sharex=True, sharey=True, layout="constrained")
    columns = [column for column in COLUMNS if column not in references]
    for panel, column in zip(panels.flat, columns, strict=True):
        ours = [scores[column, epsilon] for epsilon in epsilons]
        maes = [score.mae for score in ours]
        below = [score.mae - score.over_folds for score in ours]
        above = [score.mae + score.over_folds for score in ours]
        panel.fill_between(
            epsilons, below, above, color="#1f6fb4", alpha=0.15, linewidth=0, label="ours, spread of folds"
        )
        panel.plot(epsilons, maes, "o-", color="#1f6fb4", markersize=4, label="ours")
        printed = [printed_of(column, epsilon) for epsilon in epsilons]
        style = {"color": "#c8501e", "markersize": 4, "capsize": 2, "elinewidth": 0.8}
        panel.errorbar(epsilons, [p[0] for p in printed], [p[1] for p in printed], fmt="s--", label="printed", **style)
        for name, (color, dashes) in references.items():
            level = scores[name, epsilons[-1]].mae
            panel.axhline(level, color=color, linestyle=dashes, linewidth=1, label=f"{name} (ours)")
        panel.set_title(f"{column}: rms deviation {deviation_of(column, scores):.4f}", fontsize=10)
        panel.set_xscale("log", base=2)
        panel.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        panel.minorticks_off()
        panel.set_ylim(0, 0.65)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels[1]:
        panel.set_xlabel("epsilon as the paper counts it (not the true privacy loss)", fontsize=9)
    figure.supylabel("mean absolute error, target scaled to [0, 1]", fontsize=10)
    figure.suptitle(title, fontsize=11)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    figure.savefig(path, dpi=160)
    plt.close(figure)


def run(results: Results, options: argparse.Namespace, *, show: Callable[[list[tuple[str, float]]], Places]) -> Scores:
    """Return the score of every cell, running those that the file does not hold."""
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
    print_table(scores, title=f"{name} (NOT PRIVATE)")
    write_csv(options.out.with_suffix(f".{suffix}.table.csv"), scores)
    caption = f"{name}. Upper lines: ours; lower lines, in italics: as printed. Not private"
    write_latex(options.out.with_suffix(f".{suffix}.tex"), scores, caption=caption)
    draw(options.out.with_suffix(f".{suffix}.png"), scores, title=f"California Housing, {name}")


if __name__ == "__main__":
    main()
