"""The page's section of an analysis."""

from __future__ import annotations

import json

import pytest

from fedlearn.report.page.analysis_section import survival, tables_of
from fedlearn.report.stored import read_run
from fedlearn.report.writing import _of_analysis, write_page, write_report
from fedlearn.runs.analysis_answers import Answer, AnswerTable, Curve, read_answer, write_answer
from tests.unit.report.test_page import Page, assert_asks_nobody

ENDS = ("2.5%", "97.5%")
TABLE = AnswerTable(
    "coefficients",
    ("term", "coef", "std err", *ENDS, "odds ratio", *(f"odds ratio {end}" for end in ENDS)),
    (("(Intercept)", -1.0, 0.5, -2.0, 0.0, 0.37, 0.14, 1.0), ("<b>age", 0.7, 0.1, 0.5, 0.9, 2.0, 1.65, 2.46)),
)
CURVE = Curve("a", (0.0, 2.0, 5.0), (1.0, 0.5, 0.25), (1.0, 0.2, None), (1.0, 0.8, None))
FOUND = Answer(
    title="regression of <i>sick", facts={"records": 1234, "AIC": 12.345678}, tables=(TABLE,), curves=(CURVE,),
    forest="odds ratio", notes=("3 of 9 records are left out",),
)  # fmt: skip


@pytest.fixture
def page_for(tmp_path):
    def page_for(folder):
        write_page([read_run("run", folder)], "run", tmp_path / "out")
        return Page((tmp_path / "out" / "index.html").read_text())

    return page_for


def test_an_answer_is_written_and_read_as_it_is(tmp_path):
    write_answer(tmp_path, FOUND.to_plain())
    assert read_answer(tmp_path) == FOUND
    assert read_answer(tmp_path / "none") is None


def test_tables_curves_and_intervals_stand_on_the_page(page_for, make_run):
    folder = make_run()
    write_answer(folder, FOUND.to_plain())
    page = page_for(folder)
    assert_asks_nobody(page)
    for word in (
        "Analysis of all clients",
        "records 1,234",
        "odds ratio, with intervals",
        "Survival",
        "3 of 9 records",
    ):
        assert word in page.said, word


def test_tables_and_curves_are_written_beside_the_page(make_run, tmp_path):
    folder = make_run()
    write_answer(folder, FOUND.to_plain())
    write_report([folder], tmp_path / "out", figures="svg")
    assert "odds ratio" in (tmp_path / "out/tables/analysis_coefficients.csv").read_text()
    assert r"\toprule" in (tmp_path / "out/tables/analysis_coefficients.tex").read_text()
    assert (tmp_path / "out/figures/survival.svg").stat().st_size > 1000


def test_a_forest_plot_leaves_out_the_intercept():
    assert FOUND.intervals() == [("<b>age", 2.0, 1.65, 2.46)]


def test_a_curve_is_level_between_its_times():
    (line,) = survival(FOUND).lines
    assert line.x == (0, 2, 2, 5, 5) and line.y == (1, 1, 0.5, 0.5, 0.25) and line.low == (1, 1, 0.2, 0.2, 0.25)


def test_no_name_of_a_table_leads_out_of_its_folder():
    (table,) = tables_of(Answer(title="", facts={}, tables=(AnswerTable("../../x", ("a",), ()),)))
    assert table.key == "analysis_______x"


SPOILED = {
    "": "", "{": "{", "row": {"tables": [{"name": "a", "columns": ["x"], "rows": [[1, 2]]}]},
    "curve": {"curves": [{"name": "", "times": [0], "values": [], "lower": [], "upper": []}]},
    "text": {"facts": "many"},
}  # fmt: skip


@pytest.mark.parametrize("spoiled", SPOILED)
def test_an_analysis_that_cannot_be_read_costs_a_line(page_for, make_run, spoiled):
    folder = make_run()
    content = SPOILED[spoiled]
    text = content if isinstance(content, str) else json.dumps({**FOUND.to_plain(), **content})
    (folder / "analysis.json").write_text(text)
    assert "run: analysis.json: " in page_for(folder).said
    assert not _of_analysis([read_run("run", folder)], tables_of)


def test_a_summary_aligns_its_columns_and_is_latex_and_a_frame_too():
    lines = FOUND.summary().splitlines()
    assert lines[0] == "regression of <i>sick" and "records: 1,234" in lines[2]
    assert FOUND.to_latex().count(r"\\") == 3 and r"2.5\%" in FOUND.to_latex()
    assert FOUND.table("coefficients").loc["<b>age", "coef"] == 0.7
    long = AnswerTable("long", ("a", "b"), tuple((str(row), row) for row in range(100)))
    assert "and 61 more rows: table('long')" in Answer(title="", facts={}, tables=(long,)).summary()
