"""The classification paper's six figures hold what the paper's do, and the levels in print stand beside our methods."""

from __future__ import annotations

import pytest

from experiments.private_trees.adult import PRINTED, SHAPE, estimator, losses, ours_of, runs, table_of
from experiments.private_trees.adult import Data as AdultData
from experiments.private_trees.as_printed import PrintedID3, PrintedRandomForest
from tests.unit.private_trees.classes.private_classifiers import SIZES, examples

RUNS = list(runs(quick=True, repeats=1))


def methods_of(figure):
    return {run.method for run in RUNS if run.figure == figure}


@pytest.mark.parametrize(("figure", "mechanism"), [("3", "laplace"), ("4", "exponential"), ("6", "exponential")])
def test_figures_on_incomplete_data_hold_both_methods_with_and_without_wp_ours_and_printed(figure, mechanism):
    kinds = ("id3", "forest", "printed-id3", "printed-forest")
    assert methods_of(figure) == {f"{kind} {mechanism} {missing}" for kind in kinds for missing in ("drop", "wp")}
    assert {run.rate for run in RUNS if run.figure == figure} == {0.1}


@pytest.mark.parametrize("figure", PRINTED)
def test_every_level_in_print_stands_beside_a_method_that_is_run(figure):
    assert PRINTED[figure].keys() <= methods_of(figure)
    for _, ends in PRINTED[figure].values():
        assert ends is None or 50 <= ends[0] < ends[1] <= 100
    done = {run: (0.7, 0.1) for run in RUNS if run.figure == figure}
    shown = {row[0]: row[-1] for row in table_of(done, figure).rows}
    assert all(PRINTED[figure].get(ours_of(method), ("-",))[0] == said for method, said in shown.items())


@pytest.mark.parametrize("method", sorted({run.method for run in RUNS if run.figure in PRINTED}))
def test_a_method_is_what_its_name_says(method):
    run = next(run for run in RUNS if run.method == method)
    made = estimator(run, SIZES, None)
    kinds = {"printed-id3": PrintedID3, "printed-forest": PrintedRandomForest}
    assert kinds.get(method.split()[0], type(made)) is type(made)
    assert method.split()[1] in (made.mechanism, "exact")
    if method.startswith("id3"):
        assert (made.max_depth, made.leaf) == (SHAPE["max_depth"], "label")


def test_what_the_printed_methods_give_away_is_counted_by_the_test_rows():
    X, y = examples(3000)
    whole = AdultData(X, (y == "yes").astype(int), X[:0], y[:0], SIZES)
    lost = {str(row[0]): [str(cell) for cell in row[1:]] for row in losses(whole).rows}
    assert lost["printed-id3 laplace"][1] == lost["printed-forest exponential"][1] == "inf"
    assert lost["printed-forest laplace"] == ["0.1", "0.05", "0.05"]
    assert float(lost["printed-forest exponential"][2]) > 1
