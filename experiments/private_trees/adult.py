"""Private classification on Adult with missing values: six figures, and eDPRF beside diffprivlib's forest.

    FEDLEARN_DATA=... python -m experiments.private_trees.adult --quick
    FEDLEARN_DATA=... python -m experiments.private_trees.adult --out runs/dp_adult --diffprivlib-python PYTHON

Six categorical attributes (workclass, education, relationship, race, sex, native_country) and the income. Rows that
are incomplete in the file are left out first, so that "complete" is complete; missing values are then injected, each
value of training and test rows independently. One row in five is held out; the test rows of figures 1 to 6 are those
of them that make the classes equal in number, so that guessing gives 50 %. Classes are weighted by declared constants
(``WEIGHTS``; ``--unweighted`` for none: then most leaves of the natural 3 to 1 mixture say "<=50K" and all methods
stay lower on a balanced test).

Our methods are compared with the paper's as printed (``printed-id3``, ``printed-forest``:
`experiments.private_trees.as_printed`), which do not keep their epsilon, and with the levels that the text of its
figures gives (``PRINTED``). The paper's figures 3 and 4 vary the number of *test* rows, which changes no expectation;
ours vary the number of training records, as its figures 1 and 2 do.

Noise is seeded: the runs measure, and give no privacy. Finished runs are in ``results.csv``; a second call does the
missing ones.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from pyarrow import parquet

from experiments.private_trees.as_printed import PrintedID3, PrintedRandomForest
from experiments.private_trees.stored_rows import StoredRows
from fedlearn.private_trees.classes.classification import DPClassificationTree
from fedlearn.private_trees.classes.permute_and_flip_forest import PermuteAndFlipForest
from fedlearn.private_trees.classes.random_forest import DPRandomForestClassifier
from fedlearn.report.charts.plots import PALETTE, add_bars, drawn, legend_below, log_axis
from fedlearn.report.numbers import MeanSd
from fedlearn.report.tables import Table
from fedlearn.runs.files import write_atomically

FEATURES = ("workclass", "education", "relationship", "race", "sex", "native_country")
CLASSES = ("<=50K", ">50K")
WEIGHTS = {"<=50K": 1 / 3, ">50K": 1.0}  # declared: about a quarter of the adults earned more
SHAPE: dict[str, Any] = {"max_depth": 2, "leaf": "label"}  # the papers' trees publish labels; not our defaults
EPSILON = 0.1  # in the figures over size and missing rate
SIZES = (1000, 2000, 5000, 10000, 15000, 20000, 24000)
RATES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
TREES = (3, 10, 25, 100)  # of eDPRF and of diffprivlib's forest
KINDS = (("edprf", " permute_and_flip wp"), ("diffprivlib", ""))
TITLES = {
    "1": "ID3, complete data, by size",
    "2": "forest, complete data, by size",
    "3": "10 % missing, Laplace, by size",
    "4": "10 % missing, exponential, by size",
    "5": "20,000 records, exponential, by missing rate",
    "6": "10 % missing, exponential, by budget",
    "edprf": "natural test rows, complete data, by budget",
}
# The paper's words about its figures, and the range that they give; it prints no table.
PRINTED: dict[str, dict[str, tuple[str, tuple[float, float] | None]]] = {
    "1": {"id3 laplace": ("55 to 60", (55, 60)), "id3 exponential": ("65 to 73", (65, 73)),
          "id3 exact": ("20 to 30 above Laplace", None)},
    "2": {"forest laplace": ("about 66", (65.5, 66.5)), "forest exponential": ("about 71", (70.5, 71.5))},
    "3": {"id3 laplace wp": ("4 to 5 above dropped", None), "forest laplace wp": ("66 to 70", (66, 70))},
    "4": {},
    "5": {"id3 exponential drop": ("falls from 55", None), "id3 exponential wp": ("its lead grows", None)},
    "6": {"id3 exponential drop": ("55 to 72", (55, 72)), "id3 exponential wp": ("59 to 75", (59, 75)),
          "forest exponential drop": ("68 to 76", (68, 76)), "forest exponential wp": ("68 to 79", (68, 79))},
}  # fmt: skip
AXES = {"5": "rate", "6": "epsilon", "edprf": "epsilon"}  # the other figures: size
WORDS = {
    "size": "records trained on",
    "rate": "share of values that are missing",
    "epsilon": "epsilon of the whole fit",
}


@dataclass(frozen=True)
class Run:
    """One fit: its figure, its point on the axis, its method."""

    figure: str
    method: str
    size: int
    rate: float  # share of missing values
    epsilon: float
    repeat: int


@dataclass(frozen=True)
class Data:
    """Codes of the six attributes, and labels."""

    X: np.ndarray  # (n, 6) float, codes
    y: np.ndarray  # (n,) 0 or 1
    test_X: np.ndarray
    test_y: np.ndarray
    sizes: tuple[int, ...]  # categories of each attribute


def load(folder: Path) -> Data:
    """Return the complete rows, all for training; the categories are the published ones of the file."""
    columns = parquet.read_table(folder / "adult.parquet", columns=[*FEATURES, "income"]).to_pydict()
    complete = [row for row in zip(*columns.values(), strict=True) if None not in row]
    categories = [sorted({value for value in columns[name] if value is not None}) for name in FEATURES]
    codes = [[float(known.index(value)) for known, value in zip(categories, row, strict=False)] for row in complete]
    labels = np.array([CLASSES.index(row[-1]) for row in complete])
    return Data(np.array(codes), labels, np.empty((0, len(FEATURES))), labels[:0], tuple(map(len, categories)))


def prepare(whole: Data, run: Run) -> Data:
    """Return training and test data of a run; equal for all methods of the same size, rate and repeat."""
    rng = np.random.default_rng([run.repeat, 7])
    codes, labels = whole.X, whole.y
    order = rng.permutation(len(labels))
    held_out, rest = order[: len(order) // 5], order[len(order) // 5 :]
    if run.figure != "edprf":
        rare = held_out[labels[held_out] == 1]
        held_out = np.concatenate([rare, held_out[labels[held_out] == 0][: len(rare)]])
    train = rest[: run.size]
    X, test_X = codes[train], codes[held_out]
    for values in (X, test_X):
        values[rng.random(values.shape) < run.rate] = np.nan
    return Data(X, labels[train], test_X, labels[held_out], whole.sizes)


def estimator(run: Run, sizes: tuple[int, ...], weights: dict[str, float] | None) -> Any:
    """Return the estimator of a method's name: kind, mechanism, treatment of missing values."""
    kind, mechanism, missing = [*run.method.split(), "drop"][:3]
    epsilon = math.inf if mechanism == "exact" else run.epsilon
    declared: dict[str, Any] = {"categories": sizes, "classes": [0, 1], "noise": "seeded", "random_state": run.repeat}
    if weights is not None:
        declared["class_weight"] = {0: weights[CLASSES[0]], 1: weights[CLASSES[1]]}
    if kind.startswith("edprf"):
        return PermuteAndFlipForest(epsilon=epsilon, n_estimators=int(kind[5:]), missing=missing, **SHAPE, **declared)
    name = "permute_and_flip" if mechanism == "exact" else mechanism
    if kind == "printed-id3":
        return PrintedID3(epsilon=epsilon, mechanism=name, missing=missing, **declared)
    if kind == "printed-forest":
        return PrintedRandomForest(epsilon=epsilon, mechanism=name, missing=missing, **declared)
    if kind == "id3":
        return DPClassificationTree(epsilon=epsilon, mechanism=name, missing=missing, **SHAPE, **declared)
    return DPRandomForestClassifier(
        epsilon=epsilon, n_estimators=10, max_depth=3, mechanism=name, missing=missing, **declared
    )


def runs(*, quick: bool, repeats: int) -> Iterator[Run]:
    """Yield all runs of figures 1 to 6 and of the comparison with diffprivlib, in order."""
    step = 3 if quick else 1
    sizes, rates, epsilons = SIZES[::step], RATES[::step], EPSILONS[::step]
    private = ("laplace", "exponential", "permute_and_flip")
    grids: list[tuple[str, list[str], list[tuple[int, float, float]]]] = []
    for figure, kind in (("1", "id3"), ("2", "forest")):
        methods = [f"{kind} {mechanism}" for mechanism in (*private, "exact")]
        methods += [f"printed-{kind} {mechanism}" for mechanism in ("laplace", "exponential")]
        grids.append((figure, methods, [(size, 0.0, EPSILON) for size in sizes]))
    grids.append(("3", all_of("laplace"), [(size, 0.1, EPSILON) for size in sizes]))
    grids.append(("4", all_of("exponential"), [(size, 0.1, EPSILON) for size in sizes]))
    grids.append(("5", all_of("exponential"), [(20000, rate, EPSILON) for rate in rates]))
    grids.append(("6", all_of("exponential"), [(20000, 0.1, epsilon) for epsilon in epsilons]))
    names = [f"{kind}{trees}{rest}" for trees in TREES for kind, rest in KINDS]
    grids.append(("edprf", names, [(24000, 0.0, epsilon) for epsilon in epsilons]))
    for figure, methods, points in grids:
        for size, rate, epsilon in points:
            for repeat in range(repeats):  # methods one after another, so that timings are interleaved
                for method in methods:
                    yield Run(figure, method, size, rate, epsilon, repeat)


def all_of(mechanism: str) -> list[str]:
    """Return the names of ID3 and forest, ours and printed, with incomplete records left out, and divided."""
    kinds = ("id3", "forest", "printed-id3", "printed-forest")
    return [f"{kind} {mechanism} {missing}" for kind in kinds for missing in ("drop", "wp")]


class Neighbor:
    """diffprivlib's forest in a process of its own (see ``diffprivlib_forest``)."""

    def __init__(self, python: str) -> None:
        script = Path(__file__).with_name("diffprivlib_forest.py")
        self._process = subprocess.Popen(
            [python, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def fit(self, run: Run, data: Data) -> tuple[float, float]:
        """Return (accuracy on the test rows, seconds of the fit) of diffprivlib's forest."""
        trees = int(run.method.removeprefix("diffprivlib"))
        assert self._process.stdin is not None and self._process.stdout is not None
        with tempfile.NamedTemporaryFile(suffix=".npz") as file:
            np.savez(file, **asdict(data))
            file.flush()
            request = {"data": file.name, "epsilon": run.epsilon, "n_estimators": trees, "seed": run.repeat}
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"diffprivlib ended; how to install it:\n{Path(__file__).with_name('diffprivlib_forest.py')}"
            )
        result = json.loads(line)
        return result["accuracy"], result["seconds"]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def fit_ours(run: Run, data: Data, weights: dict[str, float] | None) -> tuple[float, float]:
    """Return (accuracy on the test rows, seconds of the fit) of our estimator for the run."""
    model = estimator(run, data.sizes, weights if run.figure != "edprf" else None)
    began = time.perf_counter()
    model.fit(data.X, data.y)
    seconds = time.perf_counter() - began
    return float((model.predict(data.test_X) == data.test_y).mean()), seconds


def results_of(stored: StoredRows) -> dict[Run, tuple[float, float]]:
    """Return accuracy and seconds of each stored run."""
    return {
        Run(r["figure"], r["method"], int(r["size"]), float(r["rate"]), float(r["epsilon"]), int(r["repeat"])): (
            float(r["accuracy"]),
            float(r["seconds"]),
        )
        for r in stored.rows
    }


def measure(
    options: argparse.Namespace, stored: StoredRows, fit_theirs: Callable[..., tuple[float, float]] | None
) -> None:
    """Do the runs that are not stored yet; each is stored at once, as one line."""
    whole = load(options.data_dir)
    done = results_of(stored)
    weights = None if options.unweighted else WEIGHTS
    first = next(runs(quick=True, repeats=1))
    fit_ours(first, prepare(whole, first), weights)  # compiles
    for run in runs(quick=options.quick, repeats=options.repeats):
        if run in done or (run.method.startswith("diffprivlib") and fit_theirs is None):
            continue
        data = prepare(whole, run)
        theirs = fit_theirs if run.method.startswith("diffprivlib") else None
        result = theirs(run, data) if theirs else fit_ours(run, data, weights)
        stored.add({**asdict(run), "accuracy": result[0], "seconds": result[1]})


def curves(done: dict[Run, tuple[float, float]], figure: str) -> dict[str, dict[float, list[tuple[float, float]]]]:
    """Return the results of the repeats, by method and point of the figure's axis."""
    found: dict[str, dict[float, list[tuple[float, float]]]] = {}
    for run, result in done.items():
        if run.figure == figure:
            point = getattr(run, AXES.get(figure, "size"))
            found.setdefault(run.method, {}).setdefault(point, []).append(result)
    return found


def table_of(done: dict[Run, tuple[float, float]], figure: str) -> Table:
    """Return mean accuracy in % and its spread: a row for each method, a column for each point of the axis.

    The last column has the words of the paper.
    """
    table = curves(done, figure)
    points = sorted({point for by_point in table.values() for point in by_point})
    rows = []
    for method, by_point in table.items():
        spreads = [_accuracy(by_point[point]) if point in by_point else None for point in points]
        texts = ("-" if s is None else f"{s.mean:.1f} ({s.sd or 0:.1f})" for s in spreads)
        rows.append([method, *texts, PRINTED.get(figure, {}).get(ours_of(method), ("-",))[0]])
    heads = ["", *(f"{point:g}" for point in points), "in print"]
    return Table.of_texts(f"figure_{figure}", f"{figure}: {TITLES[figure]}", heads, rows, words=1)


def _accuracy(results: list[tuple[float, float]]) -> MeanSd:
    return MeanSd.of([100 * accuracy for accuracy, _ in results])


def draw(done: dict[Run, tuple[float, float]], figure: str, out: Path) -> None:
    """Draw accuracy over the figure's axis; dashed: as printed; at the right edge: the ranges of the paper's text."""
    found = curves(done, figure)
    colors = dict(zip(dict.fromkeys(map(ours_of, found)), cycle(PALETTE), strict=False))
    with drawn(out, f"figure_{figure}", size=(7.5, 4.4)) as (panel,):
        for method, by_point in found.items():
            points = sorted(by_point)
            spreads = [_accuracy(by_point[point]) for point in points]
            look = {"linestyle": "-"} if method == ours_of(method) else {"linestyle": "--", "marker": "s"}
            add_bars(panel, points, spreads, label=method, color=colors[ours_of(method)], **look)
        ranges = {method: ends for method, (_, ends) in PRINTED.get(figure, {}).items() if ends is not None}
        for place, (method, ends) in enumerate(ranges.items()):
            edge = 1.015 + 0.018 * place
            panel.fill_betweenx(ends, edge, edge + 0.012, color=colors[method], alpha=0.5, linewidth=0,
                                transform=panel.get_yaxis_transform(), clip_on=False,
                                label="range in the paper's text" if place == 0 else None)  # fmt: skip
        axis = AXES.get(figure, "size")
        panel.set(title=TITLES[figure], xlabel=WORDS[axis], ylabel="accuracy, % (bars: spread of repeats)")
        if axis == "epsilon":
            log_axis(panel, EPSILONS)
        legend_below([panel], columns=3)


def ours_of(method: str) -> str:
    """Return our counterpart of a printed method."""
    return method.removeprefix("printed-")


def losses(whole: Data) -> Table:
    """Return the true privacy loss of the printed methods that claim `EPSILON`, on complete data and all test rows."""
    rows = []
    for kind in ("printed-id3", "printed-forest"):
        for mechanism in ("laplace", "exponential"):
            run = Run("1", f"{kind} {mechanism}", 1000, 0.0, EPSILON, 0)
            data = prepare(whole, run)
            fitted = estimator(run, data.sizes, WEIGHTS).fit(data.X, data.y)
            spent, tested = fitted.privacy_spent_.epsilon, len(data.test_y)
            after = f"{fitted.loss_of(tested):.4g}" if kind == "printed-forest" else f"{spent:.4g}"
            rows.append([run.method, f"{EPSILON:g}", f"{spent:.4g}", after])
    heads = ["", "claimed", "whatever is predicted", f"after {tested} predicted rows"]
    return Table.of_texts("losses", "what the printed methods really give away", heads, rows, words=1)


def speed(done: dict[Run, tuple[float, float]]) -> str:
    """Return the ratios of the times of fit, pair by pair, for each number of trees."""
    lines = []
    for trees in TREES:
        ours, theirs = (f"{kind}{trees}{rest}" for kind, rest in KINDS)
        pairs = [(done[run][1], done.get(replace(run, method=theirs))) for run in done if run.method == ours]
        ratios = [other[1] / seconds for seconds, other in pairs if other is not None]
        if ratios:
            spread = f"from {min(ratios):.0f} to {max(ratios):.0f}"
            lines.append(f"fit of {trees} trees, diffprivlib / ours: {median(ratios):.1f} times ({spread})")
    return (
        "\n".join(lines)
        or "diffprivlib was not run; experiments/private_trees/diffprivlib_forest.py says how to install it"
    )


def main() -> None:
    """Measure, then print and draw everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("runs/dp_adult"))
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("FEDLEARN_DATA"), help="holds adult.parquet")
    parser.add_argument("--quick", action="store_true", help="a third of the points, one repeat")
    parser.add_argument("--repeats", type=int, default=None, help="5, or 1 with --quick")
    parser.add_argument("--unweighted", action="store_true", help="no class weights")
    parser.add_argument("--diffprivlib-python", help="interpreter of an environment that has diffprivlib")
    options = parser.parse_args()
    if options.data_dir is None:
        sys.exit("--data-dir: say where adult.parquet is, or set FEDLEARN_DATA")
    options.repeats = options.repeats or (1 if options.quick else 5)
    stored = StoredRows(options.out / "results.csv", [*(field.name for field in fields(Run)), "accuracy", "seconds"])
    neighbor = Neighbor(options.diffprivlib_python) if options.diffprivlib_python else None
    measure(options, stored, neighbor.fit if neighbor else None)
    if neighbor:
        neighbor.close()
    done = results_of(stored)
    for figure in TITLES:
        table = table_of(done, figure)
        table.show()
        write_atomically(options.out / f"{table.key}.tex", table.as_latex().encode())
        draw(done, figure, options.out)
    losses(load(options.data_dir)).show()
    print(speed(done))


if __name__ == "__main__":
    main()
