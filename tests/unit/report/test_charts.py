"""The data of charts, before they are drawn."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.report.charts import curves as charts
from fedlearn.report.charts import round_charts
from fedlearn.report.charts.axes import axis_of, log_axis_of
from fedlearn.report.charts.captions import placed
from fedlearn.report.charts.plots import save
from fedlearn.report.points import points_of
from tests.unit.report.conftest import rows_of

SIZES = st.floats(-1e90, 1e90) | st.integers(-5, 2000).map(float) | st.floats(-1, 1)


def by_key(runs):
    return {chart.key: chart for chart in charts.curves(points_of(runs))}


def test_a_curve_lies_over_rounds_bytes_and_seconds(stored):
    drawn = by_key([stored()])
    assert drawn["accuracy_by_round"].lines[0].x == (1, 2, 3)
    assert drawn["accuracy_by_round"].lines[0].y == (0.2, 0.5, 0.4)
    assert drawn["accuracy_by_bytes"].lines[0].x == (0.5, 1.0, 1.5)
    assert drawn["accuracy_by_bytes"].x_title == "kB uploaded"
    assert drawn["accuracy_by_time"].lines[0].x == (3, 6, 9)
    assert "train_loss_by_round" in drawn and "train_loss_by_bytes" not in drawn


def test_a_curve_lies_over_virtual_hours_where_nodes_have_devices(stored):
    rows = [{**row, "virtual_seconds": 1800.0 * hour} for hour, row in enumerate(rows_of([0.2, 0.5, 0.4]), start=1)]
    line = by_key([stored(rows=rows)])["accuracy_by_virtual_time"].lines[0]
    assert (line.x, line.y) == ((0.5, 1.0, 1.5), (0.2, 0.5, 0.4))
    assert "accuracy_by_virtual_time" not in by_key([stored("in real time")])


def test_bytes_of_rounds_that_were_not_evaluated_count(stored):
    line = by_key([stored(rows=rows_of([None, 0.5, None, 0.6]))])["accuracy_by_bytes"].lines[0]
    assert (line.x, line.y) == ((1.0, 2.0), (0.5, 0.6))


def test_a_line_is_the_mean_over_seeds_with_a_band_of_one_deviation(stored):
    runs = [stored("a", rows=rows_of([0.2, 0.4])), stored("b", settings={"seed": 2}, rows=rows_of([0.4, 0.8, 0.9]))]
    (line,) = by_key(runs)["accuracy_by_round"].lines
    assert line.x == (1, 2)  # as far as both have come
    assert line.y == pytest.approx((0.3, 0.6))
    sd = np.array([0.02, 0.08]) ** 0.5
    assert line.low == pytest.approx(line.y - sd) and line.high == pytest.approx(line.y + sd)


@pytest.mark.parametrize(("size", "log"), [(500, False), (5000, False), (5001, True)])
def test_runs_of_very_different_bytes_share_a_logarithmic_axis(stored, size, log):
    drawn = by_key([stored("a"), stored("b", rows=rows_of([0.2, 0.5, 0.4], bytes_up=size))])
    assert (drawn["accuracy_by_bytes"].log_x, drawn["accuracy_by_round"].log_x) == (log, False)


def test_a_single_round_is_no_curve(stored):
    assert by_key([stored(rows=rows_of([0.2]))]) == {}


def test_points_of_long_lines_are_means_of_their_rounds(stored):
    rows = rows_of([0.2, 0.4, 0.9] * charts.MOST_PLACES)
    (line,) = by_key([stored(rows=rows)])["accuracy_by_round"].lines
    assert len(line.x) <= charts.MOST_PLACES + 1
    assert (line.x[0], line.x[-1]) == (3, 3 * charts.MOST_PLACES)
    assert line.y == pytest.approx([0.5] * len(line.x))


def test_bars_of_many_rounds_are_means_of_several(stored):
    run = stored(rows=[*rows_of([0.1] * 999), *rows_of([0.1], training_seconds=8.0)])
    for chart in (round_charts.phases(run), round_charts.fates(run)):
        assert (len(chart.places), chart.each, chart.places[:3], chart.places[-1]) == (334, 3, (1, 4, 7), 1)
        assert {len(heights) for heights in chart.layers.values()} == {334}
        assert chart.names[332] == "rounds 997 to 999, on average"
    assert round_charts.phases(run).layers["training"][-2:] == (2.0, 8.0)
    assert "means of 3 rounds" in round_charts.phases(run).title


def test_bars_of_few_rounds_are_one_each(stored):
    chart = round_charts.phases(stored(rows=rows_of([0.1] * round_charts.MOST_BARS)))
    assert (len(chart.places), chart.each) == (round_charts.MOST_BARS, 1)


@pytest.mark.parametrize("count", [3, 8, 11, 13, 27])
def test_no_tick_lies_between_two_rounds(stored, tmp_path, count):
    run = stored(rows=rows_of([0.1] * count))
    for chart in (by_key([run])["accuracy_by_round"], round_charts.phases(run)):
        save(chart, tmp_path, "one")
        assert not re.findall(r">\d+\.\d+<", (tmp_path / "one.svg").read_text().partition("matplotlib.axis_2")[0])


def test_bars_stack_to_the_cohort(stored):
    fates = round_charts.fates(stored(rows=rows_of([0.1, 0.2], cohort=5, reported=2, late=1, failed=1, refused=1)))
    assert [sum(heights) for heights in zip(*fates.layers.values(), strict=True)] == [5, 5] == list(fates.marks)


def test_the_front_is_made_of_those_that_no_other_beats(stored):
    runs = [
        stored(name, rows=rows_of([accuracy], bytes_up=size))
        for name, accuracy, size in (("plain", 0.6, 1000), ("good", 0.6, 100), ("small", 0.5, 10), ("bad", 0.4, 50))
    ]
    chart = charts.pareto(points_of(runs))
    assert {dot.label for dot in chart.dots if dot.on_front} == {"good", "small"}
    assert chart.log_x


def test_one_run_has_no_front(stored):
    assert charts.pareto(points_of([stored()])) is None


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), max_size=8), st.booleans())
def test_whatever_is_off_the_front_is_beaten_from_it(places, lower_is_better):
    sign = 1 if lower_is_better else -1
    on = charts.front_of(places, lower_is_better=lower_is_better)
    front = [place for place, kept in zip(places, on, strict=True) if kept]
    for (x, y), kept in zip(places, on, strict=True):
        beaten = any(a <= x and sign * b <= sign * y and (a, b) != (x, y) for a, b in front)
        assert beaten != kept


# --- axes -------------------------------------------------------------------------------------------------------------


@given(st.lists(SIZES, max_size=6), st.booleans(), st.booleans(), st.booleans())
def test_an_axis_holds_its_values_and_few_ticks(values, from_zero, tight, whole):
    axis = axis_of(values, from_zero=from_zero, tight=tight, whole=whole)
    assert axis.low < axis.high
    assert all(-1e-6 <= axis.place(value) <= 1 + 1e-6 for value in values)
    assert len(axis.ticks) <= 12
    assert all(-1e-6 <= axis.place(tick) <= 1 + 1e-6 for tick in axis.ticks)
    assert not whole or all(float(tick).is_integer() for tick in axis.ticks)


@given(st.lists(st.floats(1e-9, 1e90), min_size=1, max_size=6))
def test_a_logarithmic_axis_holds_its_values(values):
    axis = log_axis_of(values)
    assert all(0 <= axis.place(value) <= 1 for value in values)
    assert all(0 <= axis.place(tick) <= 1 for tick in axis.ticks)


def test_of_equal_places_both_are_on_the_front_and_of_none_nobody():
    places = [(5, 0.9), (1, 0.5), (2, 0.4), (2, 0.6), (6, 0.9)]
    assert charts.front_of(places, lower_is_better=False) == [True, True, False, True, False]
    assert charts.front_of([], lower_is_better=False) == []


def test_bytes_are_compared_in_pairs_whatever_the_largest_run_has_sent(stored):
    places = [(105_563, 0.73), (105_566, 0.75), (158_349, 0.77), (105_570, 0.70)]
    assert charts.front_of(places, lower_is_better=False) == [False, True, True, False]
    runs = [stored(str(x), rows=rows_of([y], bytes_up=x)) for x, y in places]
    chart = charts.pareto(points_of(runs))
    assert {dot.label for dot in chart.dots if dot.on_front} == {"105566", "158349"}


@given(st.lists(st.tuples(st.floats(1, 1.1), st.integers(1, 3)), min_size=1, max_size=8), st.booleans())
def test_there_is_a_front_whatever_is_alike(places, lower_is_better):
    assert any(charts.front_of(places, lower_is_better=lower_is_better))


@pytest.mark.parametrize(("bytes_up", "is_drawn"), [(500, False), (504, False), (600, True)])
def test_bytes_that_are_alike_to_one_in_a_hundred_have_bought_nothing(stored, bytes_up, is_drawn):
    other = {"training.lr": 0.5}
    runs = [stored("a", rows=rows_of([0.4])), stored("b", rows=rows_of([0.8], bytes_up=bytes_up), settings=other)]
    assert (charts.pareto(points_of(runs)) is not None) == is_drawn


def test_a_name_beside_a_dot_on_the_axis_stands_above_it():
    (low, high) = placed([("low", 10.0, 100.0), ("high", 60.0, 50.0)], left=0, right=200, bottom=100, letter=5)
    assert low.y < 100 and high.y > 50
