"""The data of the charts of nodes."""

from __future__ import annotations

import pytest

from fedlearn.core.metrics import NEURAL_CLASSIFIER
from fedlearn.report.charts.client_charts import MOST_BARS, MOST_OWN, MOST_VALUES, over_nodes, own_curves
from fedlearn.report.charts.kinds import LineChart


def rows(cells, name="accuracy", **others):
    return [{"round": number, "partition": node, name: value, **others} for number, node, value in cells]


def test_a_round_is_its_median_its_quartiles_and_its_worst_tenth():
    cells = [(number, node, node / 10 + number) for number in (1, 2) for node in range(11)]
    spread, _ = over_nodes(rows(reversed(cells)), NEURAL_CLASSIFIER)
    median, worst = spread.lines
    assert median.x == worst.x == (1, 2)
    assert median.y == pytest.approx((1.5, 2.5)) and median.low == pytest.approx((1.25, 2.25))
    assert worst.y == pytest.approx((1.05, 2.05))  # the two worst of eleven


def test_the_last_rounds_nodes_stand_the_worst_first():
    *_, ranked = over_nodes(rows([(1, 0, 0.0), (2, 7, 0.9), (2, 3, 0.2), (2, 5, 0.4)]), NEURAL_CLASSIFIER)
    assert ranked.names == ("client 3", "client 5", "client 7")
    assert ranked.layers == {"value": (0.2, 0.4, 0.9)}


def test_of_a_loss_the_largest_is_the_worst():
    *_, ranked = over_nodes(rows([(1, 0, 0.5), (1, 1, 2.0)], "train_loss"), NEURAL_CLASSIFIER)
    assert ranked.names == ("client 1", "client 0")


def test_local_training_is_shown_beside_what_was_before():
    table = rows([(1, 0, 0.9), (1, 1, 0.6)], "accuracy_after", accuracy_before=0.5)
    *_, ranked = over_nodes(table, NEURAL_CLASSIFIER)
    assert ranked.layers == {"after": (0.6, 0.9)} and ranked.marks == (0.5, 0.5)


def test_below_nothing_there_are_no_bars():
    *_, ranked = over_nodes(rows([(1, 0, -0.5), (1, 1, 0.5)]), NEURAL_CLASSIFIER)
    assert isinstance(ranked, LineChart) and ranked.lines[0].y == (-0.5, 0.5)


def test_many_nodes_are_drawn_by_as_many_bars_as_there_is_room_for():
    *_, ranked = over_nodes(rows([(1, node, node / 5000) for node in range(5000)]), NEURAL_CLASSIFIER)
    assert len(ranked.places) == MOST_BARS and ranked.names[0] == "client 0" and ranked.names[-1] == "client 4999"


def test_a_clients_curve_is_its_values_by_round_and_a_single_value_is_no_curve():
    table = rows([(2, 0, 0.4), (1, 0, 0.2), (2, 1, 0.9)])
    assert own_curves(table, "accuracy_over_nodes") == {0: ((1, 2), (0.2, 0.4))}
    assert own_curves(table, "accuracy_by_node") == {}


def test_of_many_clients_and_rounds_the_page_holds_some_and_the_ends():
    table = rows([(number, node, number / 100) for number in range(1, 101) for node in range(250)])
    curves = own_curves(table, "accuracy_over_nodes")
    assert len(curves) == -(-250 // 3) <= MOST_OWN and {places[-1] for places, _ in curves.values()} == {100}
    assert sum(len(places) for places, _ in curves.values()) <= MOST_VALUES + 2 * len(curves)


@pytest.mark.parametrize("table", [[], [{"round": 1, "partition": 0, "accuracy": None}], [{"accuracy": 0.5}]])
def test_without_measures_there_is_no_chart(table):
    assert over_nodes(table, NEURAL_CLASSIFIER) == []
