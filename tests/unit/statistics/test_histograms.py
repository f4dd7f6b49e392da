"""Statistics of declared columns, beside pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.core.errors import SettingError, UsageError
from fedlearn.data.data_spec import DataSpec, TableSchema
from fedlearn.models import load_model
from fedlearn.statistics.column_histograms import BEFORE, UNIT, Columns
from tests.oracles.forests import CLASSIFICATION, REGRESSION, dataset, examples
from tests.oracles.sums import config_of

SCHEMAS = [pytest.param(CLASSIFICATION, id="classes"), pytest.param(REGRESSION, id="numbers")]
EXACT = {"secure__sums": "masked", "clients": 5}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_what_is_read_is_what_pandas_counts(schema):
    columns, data = Columns(schema, 8), examples(500, schema)
    found = columns.read(columns.sums(data.inputs, data.targets), 0.0)
    frame = pd.DataFrame(data.inputs, columns=schema.features).assign(y=data.targets)
    assert found.count == 500 and found.deviation == 0
    bounds = {**schema.bounds, **({"y": schema.target_bounds} if schema.target_bounds else {})}
    for name, (low, high, *scale) in bounds.items():
        values = frame[name].clip(low, high)
        edges = np.geomspace(low, high, 9) if scale else np.linspace(low, high, 9)
        counts, _ = np.histogram(values.dropna(), edges)
        assert found.columns[name].counts.tolist() == [*counts, values.isna().sum()]
        assert found.columns[name].mean == pytest.approx(values.mean(), abs=(high - low) / UNIT)
        assert found.columns[name].std == pytest.approx(values.std(ddof=0), rel=1e-4)
    words = {**schema.categories, **({} if schema.target_bounds else {"y": schema.classes})}
    for name, each in words.items():
        counts = frame[name].value_counts(dropna=False)
        assert found.columns[name].counts.tolist() == [
            *(counts.get(float(i), 0) for i in range(len(each))),
            counts.get(np.nan, 0),
        ]
        assert found.columns[name].labels == (*each, "missing") and np.isnan(found.columns[name].mean)


@given(
    row=st.lists(st.floats(width=32) | st.sampled_from([0.0, 1.0, 2.0, 3.0, -1.0, 1e30]), min_size=3, max_size=3),
    target=st.floats(allow_nan=False, width=32),
)
def test_a_record_adds_no_more_than_is_claimed(row, target):
    columns = Columns(REGRESSION, 5)
    one = columns.sums(np.array([row]), np.array([target]))
    assert np.abs(one).sum() <= columns.most and np.abs(one).max() <= UNIT and one.min() >= 0


def test_both_moments_of_any_value_are_together_at_most_one_unit():
    columns = Columns(TableSchema("y", {"x": (0, 1)}, classes=("a", "b")), 1)
    place = np.arange(UNIT + 1) / UNIT
    first, second = (np.array([columns.sums(p[None, None], np.zeros(1))[-2:] for p in place[:: UNIT // 64]])).T
    whole = place * UNIT
    assert (whole + np.rint(whole * (UNIT - whole) / UNIT)).max() == UNIT
    np.testing.assert_array_equal(second, np.rint(first * (UNIT - first) / UNIT))


def test_noise_that_may_be_as_large_tells_no_deviation_and_the_mean_stays():
    columns, data = Columns(REGRESSION, 4), examples(500, REGRESSION)
    sums = columns.sums(data.inputs, data.targets)
    clear, hidden = (columns.read(sums, float(UNIT * noise) ** 2) for noise in (1.0, 100.0))
    assert clear.columns["a"].std > 0 and np.isnan(hidden.columns["a"].std)
    assert clear.columns["a"].mean == hidden.columns["a"].mean
    assert hidden.to_plain()["columns"]["a"]["std"] is None


def test_sums_of_a_run_before_second_moments_are_still_read():
    columns, data = Columns(REGRESSION, 4), examples(500, REGRESSION)
    now = columns.sums(data.inputs, data.targets)
    before = np.rint(now[: -len(columns.edges)] * BEFORE / UNIT).astype(np.int64)
    old, new = columns.read(before, 0.0), columns.read(now, 0.0)
    assert old.count == new.count == 500 and np.isnan(old.columns["a"].std)
    assert old.columns["a"].counts.tolist() == new.columns["a"].counts.tolist()
    assert old.columns["a"].mean == pytest.approx(new.columns["a"].mean, abs=1e-3)


def test_a_value_at_the_last_edge_lies_in_the_last_bin_and_one_outside_is_moved_to_the_nearest():
    columns = Columns(REGRESSION, 4)
    codes = columns.cells(
        np.array([[1.0, 1e9, 0.0], [-5.0, 0.0, 7.0], [np.nan, 1.0, -1.0]]), np.array([6.0, -9.0, 2.0])
    )
    assert [code.tolist() for code in codes] == [[3, 0, 4], [3, 0, 0], [0, 3, 3], [3, 0, 2]]


def test_nothing_is_told_of_a_mean_of_no_records():
    columns = Columns(REGRESSION, 4)
    found = columns.read(np.zeros(columns.length, np.int64), 0.0)
    assert np.isnan(found.columns["a"].mean) and str(found).startswith("0 records\na: most frequent [0, 0.25) (0)")


def test_the_model_says_how_surprising_rows_are_and_that_noise_costs_epsilon():
    spec = dataset(REGRESSION).spec
    model = load_model("dp-statistics", spec, '{"bins": 3}').planned(config_of(privacy__epsilon=2.0, clients=1))
    learned = {
        "sums": model.asked(model.initial_state(seed=1), dataset(REGRESSION).train),
        "reports": np.ones(1, np.int64),
    }
    before, after = (
        model.evaluate(state, dataset(REGRESSION).test) for state in (model.initial_state(seed=1), learned)
    )
    assert after.means["loss"] < before.means["loss"]
    told = model.fitted(learned)
    assert f"deviation {told.deviation:.4g}" in str(told)
    assert told.deviation == pytest.approx(np.sqrt(2) * (1 + 4 + 3) / 2.0, rel=1e-3)  # eight statistics share epsilon
    with pytest.raises(UsageError, match="no round was committed"):
        model.fitted(model.initial_state(seed=1))


@pytest.mark.parametrize(
    ("name", "options", "setting", "changes"),
    [
        ("statistics", "{}", "secure.sums", {"secure__sums": "off"}),
        ("dp-statistics", '{"bins": 0}', "model.options.bins", {}),
        ("statistics", '{"bin": 3}', "model.options.bin", {}),
    ],
)
def test_settings_that_cannot_be_are_refused(name, options, setting, changes):
    with pytest.raises(SettingError, match=setting.replace(".", r"\.")):
        load_model(name, dataset(REGRESSION).spec, options).planned(config_of(**changes))


def test_there_are_no_statistics_of_images():
    with pytest.raises(SettingError, match="learns from tables"):
        load_model("statistics", DataSpec("digits", (8, 8, 1), "uint8", classes=10), "{}")
