"""Gains of nodes over training alone, and the spread beside them, by values that are known."""

from __future__ import annotations

import pytest

from fedlearn.core.gains import Compared, Gains, columns_on_nodes
from fedlearn.core.metric import ACCURACY, LOSS
from fedlearn.core.metrics import NEURAL_CLASSIFIER
from fedlearn.core.spread import Spread


def test_of_a_loss_who_has_less_gains():
    found = Gains(LOSS).of([Compared(5, 1.0, 1.5), Compared(9, 2.0, 1.0)])
    assert list(found.values()) == [-0.25, -1.0, 0.5, 2, 5]


def test_who_is_as_well_off_alone_neither_gains_nor_loses():
    assert Gains(ACCURACY).of([Compared(5, 0.5, 0.5)])["accuracy_losing"] == 0


def test_of_eleven_nodes_the_worst_tenth_are_two():
    nodes = [Compared(1, node / 10, 0.5) for node in range(11)]
    assert Gains(ACCURACY).of(nodes)["accuracy_gain_worst"] == pytest.approx(-0.45)


def test_without_nodes_nothing_is_said():
    assert set(Gains(ACCURACY).of([]).values()) == {None}


def test_spread_of_ten_known_accuracies():
    values = (0.9, 0.8, 0.7, 0.6, 0.5, 0.95, 0.85, 0.75, 0.65, 0.2)
    found = Spread(ACCURACY).of([(1, value) for value in values])
    assert list(found.values()) == pytest.approx([0.69, 0.69, 0.2, 0.2095, 0.91558], abs=1e-4)
    alike = Spread(ACCURACY).of([(1, value) for value in (1, 1, 1, 1, 0.1)])
    assert alike["accuracy_nodes_jain"] == pytest.approx(0.83840, abs=1e-5)


def test_columns_of_all_kinds_have_names_of_their_own():
    names = [metric.name for metric in columns_on_nodes(ACCURACY)]
    assert len(set(names)) == len(names) == 4 * 5 + 5


@pytest.mark.parametrize("kind", ["global", "tuned", "alone", "before", "after"])
def test_what_a_node_measures_beside_its_model_has_the_range_of_its_metric(kind):
    assert NEURAL_CLASSIFIER.of_node(f"accuracy_{kind}").in_range(7.0) is None
    assert NEURAL_CLASSIFIER.of_node("accuracy_else").in_range(7.0) == 7.0
