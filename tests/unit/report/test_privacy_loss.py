"""No table, line or page says an epsilon without what it counts in."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from rich.console import Console

from fedlearn.commands.sweep_once import _table
from fedlearn.config import RunConfig
from fedlearn.core.metric import EPSILON, MAE
from fedlearn.core.metrics import Metrics
from fedlearn.report.charts.curves import curves
from fedlearn.report.charts.plots import save
from fedlearn.report.comparing import compared, write_comparison
from fedlearn.report.page.sections import sections_of
from fedlearn.report.points import points_of
from fedlearn.report.run_tables import points_table, rounds_table, runs_table
from fedlearn.report.terminal import drawing, plain_line
from fedlearn.runs.log import RunView
from fedlearn.sweeps.results import Result
from fedlearn.sweeps.sweep_plan import Run
from tests.unit.report.conftest import FIXED, committed

LOCAL = "spent; add or remove one record; unit: record; local noise"
SEEDED = f"{LOCAL}; seeded noise: reproducible, protects nobody"
ROWS = [{"round_number": number, **FIXED, "epsilon": 1.0, "mae": 2.0} for number in (1, 2)]


def metrics_of(words):
    return Metrics((replace(EPSILON, note=words),), (MAE,))


def of(words, **more):
    return {"rows": ROWS, "started": {"metrics": metrics_of(words).to_plain()}, **more}


@pytest.fixture
def two(make_run):
    return make_run("a", **of(LOCAL)), make_run("b", **of(SEEDED))


def printed(renderable):
    console = Console(file=io.StringIO(), width=400)
    console.print(renderable)
    return console.file.getvalue()


def test_two_runs_are_compared_with_what_each_epsilon_counts_in(two, tmp_path):
    """Equal numbers of unlike kinds are no equal losses."""
    page = write_comparison(*two, tmp_path / "two.html").read_text()
    for text in (printed(compared(*two)), page):
        assert LOCAL in text
        assert SEEDED in text
        assert "of unlike kinds" in text
    assert "+0.0000" in printed(compared(two[0], two[0]))


@pytest.mark.parametrize("table", [runs_table, rounds_table, lambda runs: points_table(points_of(runs))])
def test_every_table_with_an_epsilon_has_a_column_for_what_it_counts_in(stored, table):
    made = table([stored("a", **of(LOCAL)), stored("b", settings={"seed": 2}, **of(SEEDED))])
    rows = list(csv.DictReader(io.StringIO(made.as_csv())))
    assert {words for row in rows for words in row["epsilon_counts_in"].split(" | ")} == {LOCAL, SEEDED}
    assert LOCAL in made.as_markdown()
    assert "epsilon_counts_in" not in table([stored("c")]).as_csv()


def test_a_run_with_another_among_runs_without_has_a_dash_for_them(stored):
    rows = list(csv.DictReader(io.StringIO(runs_table([stored("a"), stored("b", **of(LOCAL))]).as_csv())))
    assert [row["epsilon_counts_in"] for row in rows] == ["", LOCAL]


def test_the_line_of_a_round_and_the_live_view_say_it(make_run):
    view, event = RunView(), committed(ROWS[0])
    about = {"rounds": 2, "clients": 1, "cohort": 1, "dataset": "d", "model": "m", "codec": "c", "strategy": "s"}
    about |= {"committed": 0, "notice": "", "seed": 1, "plain_bytes": 0, "metrics": metrics_of(SEEDED).to_plain()}
    view.take({"time": 0.0, "event": "started", **about})
    view.take(event)
    assert f"epsilon=1.0000 ({SEEDED}) mae=2.0000" in plain_line(view, event)
    assert f"epsilon: {SEEDED}" in printed(drawing(view, 1.0))


def test_the_page_says_it_of_one_run_and_of_several(stored):
    runs = [stored("a", **of(LOCAL)), stored("b", **of(SEEDED))]
    for shown, meant in ((runs[:1], LOCAL), (runs[1:], SEEDED), (runs, LOCAL)):
        sections = sections_of(shown, title="t", link=lambda run, name: "")
        assert meant in sections["head"] + sections["results"]


def test_a_private_run_has_no_picture_of_who_has_what_and_no_word_of_it(stored):
    """Its nodes tell no counts, so that the folder has none: `tests/unit/data/test_dealing.py`."""
    run = stored("a", dealt=None, **of(LOCAL))
    assert sections_of([run], title="t", link=lambda run, name: "")["skew"] == ""


def test_a_curve_of_an_epsilon_stands_below_a_line_that_says_it(stored):
    run = stored("a", **of(SEEDED))
    sections = sections_of([run], title="t", link=lambda run, name: "")
    assert f"epsilon: {SEEDED}." in sections["curves"]


def test_a_sweep_says_it_and_has_a_dash_where_nothing_was_measured(stored, tmp_path):
    def result(name, words, mae):
        run = stored(name, **of(words))
        run.summary.update({"mae": mae, "epsilon": 1.0, "bytes_up": 1, "metrics": metrics_of(words).to_plain()})
        return Result(Run({"noise": name}, 1, RunConfig()), run)

    results = [result("seeded", SEEDED, 2.0), result("secure", LOCAL, None)]
    table = printed(_table(results))
    assert f"1.0000 ({SEEDED})" in table
    assert f"1.0000 ({LOCAL})" in table
    assert all(row["epsilon_counts_in"] for each in results for row in each.round_rows())


def test_epsilon_by_round_has_its_budget_as_a_line(stored, tmp_path):
    limited = Metrics((replace(EPSILON, note=LOCAL, high=4.0),), (replace(MAE, high=9.0),))
    run = stored("a", rows=ROWS, started={"metrics": limited.to_plain()})
    page = sections_of([run], title="t", link=lambda run, name: "")
    text = "".join(page.values())
    assert text.count('class="ceiling"') == 1, "the bound of no other metric is drawn"
    assert "The dashed line is the budget." in text
    (chart,) = [chart for chart in curves(points_of([run]), by=["rounds"]) if chart.key == "epsilon_by_round"]
    assert chart.ceilings == (4.0,)
    save(chart, tmp_path)


def test_without_a_budget_there_is_no_line(stored):
    run = stored("a", **of(LOCAL))
    text = "".join(sections_of([run], title="t", link=lambda run, name: "").values())
    assert "ceiling" not in text.replace("ceilings", "") and "dashed line is the budget" not in text
