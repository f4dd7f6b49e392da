"""Table 3's forests as printed and reproduced, beside estimators that keep their epsilon: rigorous trees and the relay.

    python -m experiments.private_trees.table3 --out runs/dp_table3.csv --repeats 10
    python -m experiments.private_trees.regression --out runs/dp_regression.csv --models tree forest --repeats 2
    python -m experiments.private_trees.regression --out runs/dp_regression.csv --models relay --repeats 8
    python -m experiments.private_trees.table3_rigorous --table3 runs/dp_table3.csv --regression runs/dp_regression.csv

This module fits nothing: every number is the mean over all repeats in the two files, in brackets the standard deviation
over the ten folds (its mean over the repeats). The folds are the same, and so is the scale, since the declared bounds
of the target are its smallest and largest value in the data. Beside the second file are written ``*.beside.csv`` and
``*.beside.tex``.

Epsilon has different meanings in the columns. Printed and reproduced: the paper's own count, which is not the loss of a
record (``fedlearn/private_trees/README.md``). Rigorous columns: pure epsilon, add or remove one record.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.private_trees.paper import EPSILONS, FOLDS, PRINTED, Results, Score
from experiments.private_trees.regression import COLUMNS as REGRESSION_COLUMNS
from experiments.private_trees.regression import cells_of
from experiments.private_trees.stored_rows import StoredRows
from experiments.private_trees.writing import write
from fedlearn.report.tables import Table

PAPERS = ("DPMean", "DPMean_Forest", "DPMedian_Forest")
OURS = ("tree", "forest", "relay")
CAPTION = (
    "Mean absolute error, target scaled to [0, 1]; in brackets the standard deviation over ten folds. Epsilon of "
    "the paper's columns as the paper counts it (not private); of the others pure, add or remove one record"
)
Line = dict[str, tuple[float, float]]  # column -> (mean absolute error, standard deviation over folds)


def rigorous(path: Path) -> dict[tuple[str, float], Score]:
    """Return the score of each model and epsilon over the whole repeats that a file of `regression` holds."""
    repeats: dict[tuple[str, float], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (model, epsilon, repeat, _), mae in cells_of(StoredRows(path, REGRESSION_COLUMNS)).items():
        repeats[model, epsilon][repeat].append(mae)
    whole = {key: [folds for folds in of.values() if len(folds) == FOLDS] for key, of in repeats.items()}
    return {key: Score.of(errors) for key, errors in whole.items() if errors}


def lines_of(table3: Path, regression: Path, *, seed: int) -> dict[float, Line]:
    """Return the table, epsilon by epsilon; NaN for missing cells."""
    reproduced, ours = Results(table3, seed=seed), rigorous(regression)
    lines: dict[float, Line] = {}
    for row, epsilon in enumerate(EPSILONS):
        line: Line = {}
        for column in PAPERS:
            maes, spreads = PRINTED[column]
            line[f"{column}, printed"] = (maes[row], spreads[row])
            line[f"{column}, reproduced"] = _pair(reproduced.score_of(column, epsilon))
        line |= {
            f"rigorous {model}" if model != "relay" else model: _pair(ours.get((model, epsilon))) for model in OURS
        }
        lines[epsilon] = line
    return lines


def _pair(score: Score | None) -> tuple[float, float]:
    return (math.nan, math.nan) if score is None else (score.mae, score.over_folds)


def thousandths(lines: dict[float, Line]) -> Table:
    """Return the table in thousandths."""
    title = "Table 3 and what keeps its epsilon: MAE in thousandths of the target's range (over folds)"
    return wide_table(lines, title, "eps", lambda mae, spread: f"{1e3 * mae:.1f} ({1e3 * spread:.0f})")


def wide_table(lines: dict[float, Line], title: str, head: str, form: Callable[[float, float], str]) -> Table:
    """Return a row for each epsilon, heads in two lines."""
    columns = [column.replace(", ", "\n").replace("rigorous ", "rigorous\n") for column in next(iter(lines.values()))]
    rows = ([f"{epsilon:g}", *(form(*cell) for cell in line.values())] for epsilon, line in lines.items())
    return Table.of_texts("beside", title, [head, *columns], rows)


def numbers_table(lines: dict[float, Line]) -> Table:
    """Return one line for each number."""
    rows = (
        [f"{epsilon:g}", column, f"{mae:.5f}", f"{spread:.5f}"]
        for epsilon, line in lines.items()
        for column, (mae, spread) in line.items()
    )
    return Table.of_texts("numbers", "", ["epsilon", "column", "mae", "over_folds"], rows)


def not_better(
    lines: dict[float, Line], than: Sequence[str] = ("DPMean, printed", "DPMean_Forest, printed")
) -> list[str]:
    """Return where a rigorous column has no smaller error than the printed ones, in words."""
    ours = [column for column in next(iter(lines.values())) if column.startswith("rigorous") or column == "relay"]
    return [
        f"{column} at epsilon {epsilon:g}: {line[column][0]:.4f} beside {line[other][0]:.4f} of {other}"
        for epsilon, line in lines.items()
        for column in ours
        for other in than
        if not line[column][0] < line[other][0]
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print and write the table, and the cells in which a rigorous column is not better than the printed ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--table3", type=Path, default=Path("runs/dp_table3.csv"), help="what table3 has stored")
    parser.add_argument("--regression", type=Path, default=Path("dp_regression.csv"), help="what regression has stored")
    parser.add_argument("--seed", type=int, default=1, help="of table3's runs")
    options = parser.parse_args(arguments)
    for path, script in ((options.table3, "table3"), (options.regression, "regression")):
        if not path.exists():
            parser.error(f"{path} is not there; make it by: python -m experiments.private_trees.{script} --out {path}")
    lines = lines_of(options.table3, options.regression, seed=options.seed)
    thousandths(lines).show()
    beside = wide_table(lines, "", "ε", lambda mae, spread: f"{mae:.4f} ({spread:.3f})")
    write(options.regression.with_suffix(".beside"), numbers_table(lines), beside, CAPTION, table=".csv")
    missed = not_better(lines)
    claim = "The rigorous columns are better than the printed DPMean and DPMean_Forest in every row"
    print("\n".join([f"{claim}, but for:", *missed] if missed else [f"{claim}."]))


if __name__ == "__main__":
    main()
