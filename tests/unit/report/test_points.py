"""Runs are distinguished by their settings, and grouped over their seeds."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fedlearn.core.metric import ACCURACY, LOSS, MAE, Metric
from fedlearn.core.metrics import Metrics
from fedlearn.report.charts.curves import line_of, pareto
from fedlearn.report.points import best, compression_ratio, differing, metrics_of, points_of
from fedlearn.report.run_tables import runs_table
from tests.unit.report.conftest import rows_of

DROP = {"compression.codec": "drop"}


def test_only_what_differs_is_named_and_the_seed_comes_last(stored):
    runs = [stored("a", settings={"seed": 2}), stored("b", settings=DROP), stored("c", settings={"engine.workers": 2})]
    assert differing(runs) == ["compression.codec", "seed"]


def test_baseline_differs_by_being_one_and_not_by_what_follows_from_it(stored):
    federation = {"clients": 100, "rounds.cohort": 20, "data.partition": "dirichlet", **DROP}
    central = {"training.baseline": "central", "clients": 1, "rounds.cohort": 0, "training.passes": 1.0}
    runs = [stored("a", settings={**federation, "training.baseline": "none"}), stored("b", settings=central)]
    assert differing(runs) == ["training.baseline"]
    assert differing([*runs, stored("c", settings={**federation, "clients": 50})]) == ["clients", "training.baseline"]


def test_runs_that_differ_by_their_seed_are_one_point(stored):
    runs = [
        stored(f"{codec}-{seed}", settings={"compression.codec": codec, "seed": seed}, rows=rows_of([accuracy]))
        for codec, seed, accuracy in (("drop", 1, 0.2), ("identity", 1, 0.5), ("drop", 2, 0.4))
    ]
    points = points_of(runs)
    assert [(point.label, point.slot, len(point.runs)) for point in points] == [
        ("codec=drop", 0, 2),
        ("identity-1", 1, 1),
    ]
    assert points[0].spread(lambda run: run.latest("accuracy")) == pytest.approx((0.3, 0.02**0.5))


def test_runs_of_the_same_settings_and_seed_are_shown_one_by_one(stored):
    assert [point.label for point in points_of([stored("a"), stored("b")])] == ["a", "b"]


def test_runs_whose_settings_cannot_be_read_are_points_of_their_own(make_run, stored):
    lost = make_run("lost")
    (lost / "settings.toml").unlink()
    from fedlearn.report.stored import read_run

    assert [point.label for point in points_of([read_run("lost", lost), stored("kept")])] == ["lost", "kept"]


def test_a_point_of_several_seeds_is_told_from_the_others_by_few_words(stored):
    """The settings of all runs differ in many ways; a name of them all would have 140 letters."""
    skewed = {"data.partition": "dirichlet", "data.alpha": 0.1, "rounds.total": 12, "training.lr": 0.1}
    other = {"rounds.quorum": 0.5, "rounds.reporting_deadline": 7.0, "training.lr": 0.2, **DROP}
    runs = [stored(f"s{seed}", settings={**skewed, "seed": seed}) for seed in (1, 2)]
    assert [point.label for point in points_of([*runs, stored("o", settings=other)])] == ["total=12", "o"]
    flat = [stored(f"f{seed}", settings={**skewed, "data.partition": "iid", "seed": seed}) for seed in (1, 2)]
    assert [point.label for point in points_of([*runs, *flat])] == ["partition=dirichlet", "partition=iid"]


def test_points_of_a_sweep_are_labelled_by_what_was_varied(stored):
    """What follows from a strategy, its learner, say, differs, too, and would tell the points apart as well."""
    ditto = {"strategy.name": "fedavg", "training.learner": "ditto", "clients": 5}
    runs = [stored(f"runs/{name}-{seed}", settings={**given, "seed": seed, "training.lr": rate})
            for name, given, rate in (("a", ditto, 0.1), ("b", {"strategy.name": "fedavgm"}, 0.1), ("c", ditto, 0.2))
            for seed in (1, 2)]  # fmt: skip
    plan = '[grid]\ntraining.lr = [0.1, 0.2]\n[choices.way.x]\n"strategy.name" = "fedavg"\n'
    (runs[0].folder.parent.parent / "sweep.toml").write_text(plan)
    assert differing(runs) == ["training.lr", "strategy.name", "clients", "training.learner", "seed"]
    assert [point.label for point in points_of(runs)] == [
        "lr=0.1, strategy=fedavg", "lr=0.1, strategy=fedavgm", "lr=0.2, strategy=fedavg",
    ]  # fmt: skip


def test_what_another_setting_keeps_from_being_read_is_in_no_name(stored):
    settings = [
        {"data.partition": scheme, "data.alpha": alpha, "seed": seed}
        for scheme, alpha in (("iid", 0.5), ("dirichlet", 0.5), ("dirichlet", 0.1))
        for seed in (1, 2)
    ]
    labels = [p.label for p in points_of([stored(str(n), settings=each) for n, each in enumerate(settings)])]
    assert labels == ["partition=iid", "partition=dirichlet, alpha=0.5", "partition=dirichlet, alpha=0.1"]


def test_a_point_without_a_short_name_is_called_by_its_first_run(stored):
    names = [{"data.dataset": letter * 70, "seed": seed} for letter in "ab" for seed in (1, 2)]
    labels = [point.label for point in points_of([stored(str(n), settings=each) for n, each in enumerate(names)])]
    assert labels == ["0 and 1 more", "2 and 1 more"]


def test_half_a_run_does_not_count_in_a_mean(stored):
    whole = stored("whole", rows=rows_of([0.2, 0.8]))
    half = stored("half", settings={"seed": 2}, rows=rows_of([0.1]), status="")
    (point,) = points_of([whole, half])
    assert point.spread(lambda run: run.latest("accuracy")) == (0.8, None)


def test_of_runs_that_all_go_on_all_count(stored):
    (point,) = points_of([stored("a", status=""), stored("b", settings={"seed": 2}, status="")])
    assert len(point.counted) == 2


def test_the_best_is_the_first_of_the_best_and_lower_where_that_is_better(stored):
    run = stored(rows=rows_of([0.2, 0.5, 0.5, 0.1]))
    assert best(run, ACCURACY) == (0.5, 2)
    assert best(run, LOSS) == (1.5, 1)


def test_trees_are_judged_by_their_error(stored):
    rows = [{k: v for k, v in row.items() if k not in ("train_loss", "loss", "accuracy")} for row in rows_of([0.1])]
    run = stored(rows=[{**row, "epsilon": 1.0, "mae": 58.5, "mae_scaled": 0.17} for row in rows])
    assert [each.name for each in metrics_of([run]).by_interest] == ["mae", "mae_scaled", "epsilon"]
    assert metrics_of([run]).headline is MAE


def test_what_nobody_measured_is_no_metric(stored):
    assert [each.name for each in stored(rows=rows_of([None, None])).metrics.by_interest] == ["loss", "train_loss"]


RANKS = Metrics((Metric("nodes_lost"),), (Metric("hits"), Metric("mean_rank", "rank", better="down", headline=True)))
RANK_ROWS = [
    {k: v for k, v in row.items() if k not in ("train_loss", "loss", "accuracy")}
    | {"nodes_lost": 1.0, "hits": row["round_number"] / 10, "mean_rank": rank}
    for row, rank in zip(rows_of([0, 0, 0]), (9.0, 4.0, 6.0), strict=True)
]


def test_metrics_of_a_model_from_outside_are_read_as_its_run_declares_them(stored):
    run = stored(rows=RANK_ROWS, started={"metrics": json.loads(json.dumps(RANKS.to_plain()))})
    metrics = run.metrics
    assert [each.title for each in metrics.by_interest] == ["rank", "hits", "nodes lost"]
    assert best(run, metrics.headline) == (4.0, 2)


@pytest.mark.parametrize("said", [None, 7, {"evaluated": [{"name": 3}]}, {"evaluated": [{"name": "x", "headline": 1}]}])
def test_metrics_that_nobody_declares_are_shown_and_rank_nothing(stored, said):
    run = stored(rows=RANK_ROWS, started={"metrics": said})
    assert set(run.metrics.columns) == {"nodes_lost", "hits", "mean_rank"}
    assert run.metrics.headline is None


def test_a_column_that_a_run_forgot_to_declare_is_shown_beside_the_others(stored):
    declared = {"evaluated": [{"name": "mean_rank", "better": "down", "headline": True}]}
    run = stored(rows=RANK_ROWS, started={"metrics": declared})
    assert [each.name for each in run.metrics.by_interest] == ["mean_rank", "nodes_lost", "hits"]


def test_runs_of_two_kinds_of_models_are_judged_by_what_comes_first(stored):
    neural, ranked = stored("a"), stored("b", rows=RANK_ROWS, started={"metrics": RANKS.to_plain()})
    assert [each.name for each in metrics_of([neural, ranked]).evaluated] == ["loss", "accuracy", "hits", "mean_rank"]
    assert metrics_of([neural, ranked]).headline is ACCURACY


def test_the_compression_ratio_of_a_run_that_goes_on_comes_from_its_reports(stored):
    assert compression_ratio(stored(status="")) == 1000 * 6 / 1500
    assert compression_ratio(stored("trees", status="", started={"plain_bytes": 0})) is None


def test_baseline_has_no_bytes_where_federations_are_compared_by_them(stored):
    runs = [stored(name, settings={"training.baseline": name}, rows=rows_of([0.2, 0.4])) for name in ("none", "local")]
    local = replace(runs[1], summary={**runs[1].summary, "baseline": "local"})
    points = points_of([runs[0], local])
    assert [line_of(point, "accuracy", "bytes") is None for point in points] == [False, True]
    assert all(line_of(point, "accuracy", "rounds") for point in points)
    assert pareto(points) is None
    assert (local.sent("bytes_up"), compression_ratio(local)) == (None, None)
    assert runs_table([runs[0], local]).rows[1].count(None) > runs_table([runs[0], local]).rows[0].count(None)
