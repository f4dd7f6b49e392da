"""How large a report may be beside those of its cohort."""

from __future__ import annotations

import pytest

from fedlearn.config.tables.reports import GateSettings
from fedlearn.core.cohort import Fate, NodeReport, Typical
from server.gate.limits import Limits, measured, too_far, typical_after

USUAL = Typical(2.0, 100)


def limits_of(cohort=20, typical=USUAL, **gate):
    return Limits(typical, cohort, GateSettings(**gate))


def reports_of(*pairs):
    return [NodeReport(place, Fate.REPORTED, count, norm=norm) for place, (norm, count) in enumerate(pairs)]


@pytest.mark.parametrize(
    ("norm", "num_examples", "word"),
    [
        (10.0, 100, ""),  # five times, to the last bit
        (10.001, 100, "norm-too-large"),
        (10.001, 50, "norm-too-large"),  # few examples are no reason for less
        (20.0, 200, ""),  # twice the examples, twice the steps
        (20.001, 200, "norm-too-large"),
        (100.0, 5000, ""),
        (100.001, 5000, "norm-too-large"),  # but no more than ten times
        (float("inf"), 100, "norm-too-large"),
        (0.0, 36_100, ""),  # 19 others of 100: 0.95 of the weight
        (0.0, 36_101, "share-too-large"),
    ],
)
def test_limits_hold_from_the_first_bit_beyond_them(norm, num_examples, word):
    assert limits_of().why_not(norm, num_examples).partition(":")[0] == word


@pytest.mark.parametrize(("cohort", "norm", "num_examples", "is_refused"), [
    (2, 1e9, 1, False), (3, 1e9, 1, True), (4, 0.0, 10**7, False), (5, 0.0, 10**7, True),
])  # fmt: skip
def test_small_cohorts_say_nothing_of_what_is_usual(cohort, norm, num_examples, is_refused):
    assert bool(limits_of(cohort).why_not(norm, num_examples)) is is_refused


def test_settings_move_the_limits_or_take_them_away():
    assert limits_of(max_ratio=50, max_share=0.999999).why_not(100.0, 10**6) == ""
    assert limits_of(max_ratio=0, max_share=1.0).why_not(1e30, 10**7) == ""
    assert limits_of(max_share=0.1).why_not(0.0, 212).startswith("share-too-large: 212 examples would be 0.1004")


def test_where_nothing_changes_any_change_is_let_in():
    assert limits_of(typical=Typical(0.0, 100)).why_not(5.0, 100) == ""


def test_what_is_typical_is_a_median_whatever_less_than_half_say():
    honest = [(1.0, 100), (2.0, 200), (3.0, 300), (4.0, 400)]
    assert Typical.of(reports_of(*honest)) == Typical(3.0, 200)
    assert Typical.of(reports_of(*honest, *[(1e38, 10**7)] * 3)) == Typical(4.0, 400)
    assert Typical.of(reports_of(*honest, *[(0.0, 1)] * 3)) == Typical(1.0, 100)


def test_honest_nodes_of_two_kinds_in_equal_numbers_are_compared_with_those_that_go_further():
    """As in a federation of steep and flat losses; by the lower of two middle ones a third of them went too far."""
    assert too_far(reports_of(*[(0.15, 10)] * 3, *[(0.89, 10)] * 3), GateSettings()) == {}


def usual_after(*norms, clients, asks_for_more=True):
    typical = None
    for norm in norms:
        reports = reports_of(*[(norm, 10)] * 5)
        typical = typical_after(typical, reports, clients=clients, goes_by_what_nodes_keep=asks_for_more)
    return typical.norm


def test_where_nodes_go_by_what_they_keep_the_usual_norm_falls_slowly_by_the_share_of_nodes_that_was_asked():
    assert usual_after(8.0, 1.0, clients=5) == pytest.approx(8 * 0.9)
    assert usual_after(8.0, 1.0, clients=50) == pytest.approx(8 * 0.9**0.1)
    assert usual_after(8.0, *[1.0] * 50, clients=5) == 1.0
    assert usual_after(1.0, 8.0, clients=50) == 8.0


def test_elsewhere_only_the_last_round_counts():
    assert usual_after(8.0, 1.0, clients=50, asks_for_more=False) == 1.0


def test_a_median_that_is_not_finite_is_no_measure():
    assert Typical.of(reports_of(*[(float("inf"), 1)] * 3)).norm == 0.0


def test_who_goes_too_far_is_found_beside_the_others_and_only_they():
    reports = reports_of((1.0, 100), (1.1, 100), (50.0, 100), (0.9, 100), (1.0, 10**7), (0.0, 1))
    assert {place: why.partition(":")[0] for place, why in too_far(reports, GateSettings()).items()} == {
        2: "norm-too-large",
        4: "share-too-large",
    }


def test_only_reports_that_were_sound_in_themselves_are_measured():
    sound = NodeReport(0, Fate.REPORTED, 5, norm=1.0)
    far = NodeReport(1, Fate.REFUSED, 5, reason="norm-too-large: ...", norm=9.0)
    broken = NodeReport(2, Fate.REFUSED, reason="undecodable: ...")
    assert measured([sound, far, broken, NodeReport(3, Fate.LATE)]) == [sound, far]
