"""Printed, reproduced and rigorous columns beside each other, from stored results."""

from __future__ import annotations

import csv

import pytest

from experiments.private_trees.paper import EPSILONS, Results
from experiments.private_trees.regression import COLUMNS
from experiments.private_trees.stored_rows import StoredRows
from experiments.private_trees.table3_rigorous import lines_of, main, not_better


@pytest.fixture
def files(tmp_path):
    """Two reproduced repeats of DPMean_Forest at epsilon 1; of the relay one whole repeat and a part of another."""
    table3, regression = tmp_path / "table3.csv", tmp_path / "regression.csv"
    with table3.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Results.FIELDS)
        for repeat, low in ((1, 0.1), (2, 0.3)):
            for fold in range(10):
                mae = low + 0.1 * (fold % 2)
                writer.writerow(["DPMean_Forest", "1", 25, "fitted", "2", repeat, 1, fold, mae, 0])
    stored = StoredRows(regression, COLUMNS)
    for epsilon in EPSILONS:
        for repeat, folds in ((0, 10), (1, 3)):
            for fold in range(folds):
                mae = (0.12 if repeat == 0 else 9.0) + 0.02 * (fold % 2)
                stored.add(dict(zip(COLUMNS, ("relay", epsilon, repeat, fold, mae, epsilon, 0), strict=True)))
    return table3, regression


def test_numbers_are_means_over_whole_repeats_and_spreads_over_folds(files):
    line = lines_of(*files, seed=1)[1.0]
    assert line["DPMean_Forest, printed"] == (0.2073, 0.0384)
    assert line["DPMean_Forest, reproduced"] == pytest.approx((0.25, 0.05))
    assert line["relay"] == pytest.approx((0.13, 0.01))
    assert all(number != number for number in line["rigorous forest"])  # nobody has run it: NaN


def test_rows_that_are_not_better_than_printed_are_named(files):
    missed = [words for words in not_better(lines_of(*files, seed=1)) if words.startswith("relay")]
    assert missed == [
        "relay at epsilon 32: 0.1300 beside 0.1284 of DPMean_Forest, printed",
        "relay at epsilon 64: 0.1300 beside 0.1226 of DPMean_Forest, printed",
    ]


def test_table_is_written_as_csv_and_latex(files, capsys):
    table3, regression = files
    main(["--table3", str(table3), "--regression", str(regression)])
    with regression.with_suffix(".beside.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(EPSILONS) * 9
    assert {"epsilon": "8", "column": "relay", "mae": "0.13000", "over_folds": "0.01000"} in rows
    assert regression.with_suffix(".beside.tex").read_text().count(r"0.1300 (0.010) \\") == len(EPSILONS)
    assert "relay at epsilon 64" in capsys.readouterr().out


def test_a_file_that_is_not_there_is_named_with_the_command_that_makes_it(files, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--table3", "nowhere.csv", "--regression", str(files[1])])
    assert (
        "nowhere.csv is not there; make it by: python -m experiments.private_trees.table3 --out"
        in capsys.readouterr().err
    )
