"""A metric is declared once; the declaration says how the nodes' values are combined."""

from __future__ import annotations

import json

import pytest

from fedlearn.core.cohort import Fate, NodeReport
from fedlearn.core.metric import ACCURACY, EPSILON, LOSS, TOKENS, TRAIN_LOSS, Combine, Metric
from fedlearn.core.metrics import KNOWN, NEURAL_CLASSIFIER, PRIVATE_REGRESSOR, Metrics, declared
from fedlearn.core.spread import Spread


def reports(name, *pairs):
    """Return the reports of a cohort: (number of examples, value); a node without a value has not measured."""
    return [
        NodeReport(place, Fate.REPORTED, num_examples=examples, metrics={} if value is None else {name: value})
        for place, (examples, value) in enumerate(pairs)
    ]


def test_a_mean_is_weighted_by_examples_over_those_who_measured():
    assert Metrics((TRAIN_LOSS,)).combined(reports("train_loss", (1, 4.0), (3, 2.0), (9, None)), {}) == {
        "train_loss": 2.5
    }


def test_what_nobody_measured_is_none():
    assert NEURAL_CLASSIFIER.combined([], {"train_loss": 1.0}) == {"train_loss": None}


def test_a_privacy_loss_is_the_largest_and_never_falls():
    metrics = Metrics((EPSILON,))
    assert metrics.combined(reports("epsilon", (1, 0.5), (9, 0.25)), {}) == {"epsilon": 0.5}
    assert metrics.combined(reports("epsilon", (1, 0.5)), {"epsilon": 0.75}) == {"epsilon": 0.75}
    assert metrics.combined([], {"epsilon": 0.75}) == {"epsilon": 0.75}


def test_another_largest_may_fall():
    peak = Metric("peak", combine=Combine.LARGEST)
    assert Metrics((peak,)).combined(reports("peak", (1, 2.0), (1, 3.0)), {"peak": 9.0}) == {"peak": 3.0}


def test_a_sum_needs_no_weights_and_is_none_where_nobody_has_counted():
    metrics = Metrics((TOKENS,))
    assert metrics.combined(reports("tokens", (1, 20), (9, 5)), {"tokens": 90}) == {"tokens": 25}
    assert metrics.combined([], {"tokens": 90}) == {"tokens": None}


def test_a_headline_must_say_what_is_better():
    with pytest.raises(ValueError, match="metric 'rank' is a headline: say which is better"):
        Metric("rank", headline=True)


def test_two_metrics_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two metrics have one name"):
        Metrics((LOSS,), (LOSS,))


def test_without_a_headline_the_first_that_says_what_is_better_counts():
    assert Metrics(evaluated=(Metric("shown"), Metric("f1", better="up"))).best_by == "f1"
    assert Metrics(evaluated=(Metric("shown"),)).headline is None


@pytest.mark.parametrize("metrics", [NEURAL_CLASSIFIER, PRIVATE_REGRESSOR, KNOWN])
def test_declarations_survive_the_log(metrics):
    assert declared(json.loads(json.dumps(metrics.to_plain()))) == metrics


@pytest.mark.parametrize(("value", "stored"), [
    (0.0, 0.0), (1.0, 1.0), (1.0 + 1e-12, 1.0), (-1e-12, 0.0), (1.1, None), (-0.1, None), (1e308, None),
])  # fmt: skip
def test_a_value_is_in_the_range_of_its_metric_or_nothing(value, stored):
    assert ACCURACY.in_range(value) == stored


def test_a_metric_without_bounds_can_be_anything_finite():
    assert [Metric("score").in_range(value) for value in (-1e308, 0.0, 1e308)] == [-1e308, 0.0, 1e308]
    assert (Metric("score").range, LOSS.range, ACCURACY.range) == ("", "from 0", "from 0 to 1")


def test_no_node_can_report_more_privacy_loss_than_the_budget():
    assert Metrics((EPSILON,)).within(0.5).reported[0].in_range(0.5 * (1 + 1e-10)) == 0.5
    assert Metrics((EPSILON,)).within(0.5).reported[0].in_range(0.6) is None


def test_a_loss_from_outside_may_be_negative():
    other = NEURAL_CLASSIFIER.of_other_loss()
    assert [metric.in_range(-3.0) for metric in (*other.reported, *other.evaluated)] == [-3.0, -3.0, None]


def test_ranges_travel_with_the_run():
    assert declared(Metrics((EPSILON,), (ACCURACY,)).within(2.0).to_plain()) == Metrics((EPSILON,), (ACCURACY,)).within(
        2.0
    )


def test_scores_on_nodes_are_results():
    of_run = Metrics((TRAIN_LOSS, *Spread(ACCURACY).metrics), (LOSS, ACCURACY))
    assert [m.name for m in of_run.results] == ["accuracy", "loss", "accuracy_nodes", "accuracy_nodes_worst"]
    assert declared(json.loads(json.dumps(of_run.to_plain()))) == of_run
