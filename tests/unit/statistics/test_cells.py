"""Small cells: no count from 1 to `least_count` - 1 can be read from an answer."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest

from fedlearn.core.errors import RunFailed
from fedlearn.data import from_frame
from fedlearn.statistics import fit
from fedlearn.statistics.describe import ALL
from fedlearn.statistics.small_cells import blocks_of, in_blocks, is_small
from tests.oracles.studies import BOUNDS, leukemia_table, patients, table

LEAST = 5
SMALL = set(range(1, LEAST))
MOST = 10  # records in a group of the tables that are tried


def study(counts):
    """Return a table with as many records as (groups, words) counts say."""
    groups, words = (list("abc")[: counts.shape[0]], list("uvwxyz")[: counts.shape[1]])
    rows = [(g, w) for (i, g), (j, w) in product(enumerate(groups), enumerate(words)) for _ in range(counts[i, j])]
    frame = pd.DataFrame(rows, columns=["group", "word"])
    categories = {"group": groups}
    return from_frame(frame, target="word", classes=words, categories=categories, test_share=0.0)


def shown(counts):
    """Return the numbers of the first table of the answer, with their labels; None if there is no answer."""
    try:
        answer = fit("describe", study(counts), by="group", least_count=LEAST)
    except RunFailed:
        return None
    frame = answer.table("table1")
    numbers = frame.astype(object).map(lambda text: None if text is None else int(str(text).split(" ")[0]))
    return {(row, group): numbers.loc[row, group] for row in numbers.index for group in numbers.columns}


@cache
def tables_of(shape):
    """Return all (tables, groups, words) counts with up to `MOST` in a cell."""
    return np.indices([MOST + 1] * int(np.prod(shape)), np.int8).reshape(int(np.prod(shape)), -1).T.reshape(-1, *shape)


def possible(found, shape):
    """Return all tables whose sums are those that are shown."""
    words, groups = list("uvwxyz")[: shape[1]], list("abc")[: shape[0]]
    tables = tables_of(shape)
    for (row, group), number in found.items():
        if number is None:
            continue
        at = (
            [k for k, each in enumerate(groups) if ("records", each) in found]
            if group == ALL
            else [groups.index(group)]
        )
        named = words if row == "records" else row.removeprefix("word: ").removesuffix(", n (%)").split(" or ")
        sums = tables[:, at][:, :, [words.index(word) for word in named]].sum(axis=(1, 2))
        tables = tables[sums == number]
    return tables


@pytest.mark.parametrize("tables", [12, pytest.param(500, marks=pytest.mark.long)])
def test_each_hidden_count_may_be_any_from_one_on_by_all_that_an_answer_shows(tables):
    """All tables of two groups and two or three words are tried that the answer may be of."""
    rng, hidden = np.random.default_rng(1), 0
    for _ in range(tables):
        shape = (2, int(rng.integers(2, 4)))
        while (counts := rng.choice([0, 1, 2, 3, 5, 7], size=shape)).sum(axis=1).max() > MOST:
            pass
        if (found := shown(counts)) is None:
            assert (is_small(counts.sum(axis=1), LEAST) | (counts.sum(axis=1) == 0)).all()
            continue
        assert SMALL.isdisjoint(number for number in found.values() if number is not None)
        agreeing = possible(found, shape)
        assert (agreeing == counts).all(axis=(1, 2)).any()
        for place in np.argwhere(is_small(counts, LEAST)):
            assert set(agreeing[:, *place].tolist()) >= SMALL, (counts, found, place)
            hidden += 1
    assert hidden > tables / 2


def test_a_group_of_one_is_left_out_of_totals_and_tests():
    frame = patients(300, seed=1)
    frame.loc[frame.index[frame.ward == "c"][1:], "ward"] = "a"
    whole, rest = (
        fit("describe", table(each, "score", ["age", "ward"]), by="ward") for each in (frame, frame[frame.ward != "c"])
    )
    assert whole.table("table1").equals(rest.table("table1")[["all", "a", "b"]])
    assert whole.table("tests").equals(rest.table("tests"))
    assert whole.table("numbers").equals(rest.table("numbers")[lambda each: each.group != "c"])
    assert whole.facts["records"] == 299 and "c" not in whole.table("table1").columns
    assert any("fewer than 5 records are left out, of totals as well" in note for note in whole.notes)
    assert not any("299" in title for each in whole.tables for title in each.columns if each.name != "table1")
    survival = fit(
        "kaplan-meier", table(frame.assign(ward=frame.ward), "weeks", ["ward", "died"]), event="died", by="ward"
    )
    assert [curve.name for curve in survival.curves] == ["a", "b"] and survival.facts["records"] == 299
    for model, target, options in (("glm", "sick", {}), ("cox", "weeks", {"event": "died"})):
        with pytest.raises(RunFailed, match=r"fewer than model\.options\.least_count = 5 records have 'ward: c'"):
            fit(model, table(frame, target, ["age", "ward", *options.values()]), **options)


def test_few_records_with_a_value_are_shown_nowhere():
    frame = patients(60, seed=2)
    frame.loc[frame.index[3:], "dose"] = None
    found = fit("describe", table(frame, "score", ["age", "dose", "sex"]))
    assert "dose" not in found.table("numbers").index
    assert found.table("table1").loc["dose, mean (SD)", "all"] is None
    assert all(each.name != "correlation" for each in found.tables)
    with pytest.raises(RunFailed, match="least_count = 5 records have all columns"):
        fit("glm", table(frame.assign(sick=["no", "yes"] * 30), "sick", ["dose"]))
    with pytest.raises(RunFailed, match=r"there are fewer than model\.options\.least_count = 70"):
        fit("describe", table(frame, "score", ["age"]), least_count=70)


def test_values_beyond_their_bounds_are_not_counted_where_they_are_few():
    frame = patients(100).assign(age=lambda rows: rows.age.where(rows.index > 2, 200.0))
    for model in ("describe", "glm"):
        notes = " ".join(fit(model, table(frame, "sick", ["age", "dose"])).notes)
        assert "moved to the nearer bound: age (fewer than 5)" in notes


def test_rare_categories_are_merged_as_if_the_rows_had_been():
    frame = patients(400, seed=3)
    frame.loc[frame.index[frame.ward == "c"][2:], "ward"] = "a"
    found = fit("describe", table(frame, "score", ["ward", "sex", "age"]), by="sex")
    merged = frame.assign(ward=frame.ward.replace({"b": "b or c", "c": "b or c"}))
    expected = pd.crosstab(merged.ward, merged.sex)
    for word in ("a", "b or c"):
        shown = found.table("table1").loc[f"ward: {word}, n (%)", ["f", "m"]]
        assert [int(each.split(" ")[0]) for each in shown] == expected.loc[word].tolist()
    assert "ward: c, n (%)" not in found.table("table1").index
    sexes = {"sex": ["f", "m"], "ward": ["a", "b or c"]}
    table_of_merged = from_frame(merged[["score", "ward", "sex", "age"]], target="score", target_bounds=BOUNDS["score"],
                                 bounds={"age": BOUNDS["age"]}, categories=sexes, test_share=0.0)  # fmt: skip
    again = fit("describe", table_of_merged, by="sex", least_count=1)
    assert found.table("tests").loc["ward"].tolist() == again.table("tests").loc["ward"].tolist()


def test_times_are_merged_as_if_the_rows_had_been():
    frame = patients(300, seed=4)
    found = fit("kaplan-meier", table(frame, "weeks", ["sex", "died"]), event="died", by="sex")
    life = found.table("life")
    assert life["events"].min() >= LEAST and any("times are merged into" in note for note in found.notes)
    counts = np.array([
        [np.bincount(frame.weeks[(frame.sex == sex) & (frame.died == died)].astype(int), minlength=61) for sex in "fm"]
        for died in ("no", "yes")
    ])  # fmt: skip
    block = blocks_of(counts.reshape(4, -1), LEAST)
    assert not is_small(in_blocks(counts, block), LEAST).any()
    ends = np.array([np.flatnonzero(block == each)[-1] for each in range(block.max() + 1)])
    merged = frame.assign(weeks=ends[block[frame.weeks.astype(int)]].astype(float))
    again = fit("kaplan-meier", table(merged, "weeks", ["sex", "died"]), event="died", by="sex", least_count=1)
    for name in ("survival", "life", "log_rank"):
        mine, theirs = (each.table(name).select_dtypes("number") for each in (found, again))
        np.testing.assert_allclose(mine.to_numpy(float), theirs.to_numpy(float), rtol=1e-12)


def test_quartiles_come_from_cells_that_hold_enough():
    frame = patients(40, seed=5)
    fine, shown = (fit("describe", table(frame, "score", ["age"]), bins=50, least_count=least) for least in (1, LEAST))
    counts = np.histogram(frame.age, np.linspace(*BOUNDS["age"], 51))[0]
    block = blocks_of(counts[None, :], LEAST)
    low, high = BOUNDS["age"]
    edges = low + (high - low) * np.append(0, np.cumsum(np.bincount(block))) / 50
    reached = np.cumsum(in_blocks(counts, block))
    expected = np.interp(np.array([0.25, 0.5, 0.75]) * 40, np.append(0, reached), edges)
    assert shown.table("numbers").loc["age", ["Q1", "median", "Q3"]].tolist() == pytest.approx(expected.tolist())
    assert fine.table("numbers").loc["age", "mean"] == shown.table("numbers").loc["age", "mean"]


@pytest.mark.parametrize("is_ordered", [True, False])
def test_blocks_hold_no_small_count_and_all_records(is_ordered):
    rng = np.random.default_rng(6)
    for _ in range(200):
        counts = rng.poisson(rng.uniform(0, 8), (int(rng.integers(1, 4)), int(rng.integers(1, 9))))
        counts = counts[~is_small(counts.sum(axis=1), LEAST)]
        block = blocks_of(counts, LEAST, is_ordered=is_ordered)
        merged = in_blocks(counts, block)
        assert merged.sum() == counts.sum() and not is_small(merged, LEAST).any()
        assert not is_ordered or (np.diff(block) >= 0).all()


def test_with_a_least_count_of_one_all_is_shown():
    found = fit("kaplan-meier", leukemia_table(), event="relapse", by="arm", least_count=1)
    assert found.table("life")["events"].min() == 1 and found.notes == ()
