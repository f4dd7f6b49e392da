"""Tables hold plain values in files, and shown ones on the page."""

from __future__ import annotations

import csv
import io
import re
from contextlib import redirect_stdout

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlearn.report import tables
from fedlearn.report.numbers import MeanSd, number_spread, ratio_spread, seconds_spread, size_spread
from fedlearn.report.points import points_of
from fedlearn.report.run_tables import for_papers, points_table, rounds_table, runs_table
from fedlearn.report.tables import Table
from tests.unit.report.conftest import rows_of


def read(table):
    return list(csv.DictReader(io.StringIO(table.as_csv())))


def test_a_run_is_a_row_of_exact_values(stored):
    (row,) = read(runs_table([stored()]))
    assert (row["run"], row["accuracy"], row["best_accuracy"], row["bytes_up"]) == ("run", "0.4", "0.5", "1500.0")
    assert (row["compression_ratio"], row["seconds"], row["status"]) == ("4.0", "9.0", "completed")
    assert row["model_sha256"] == "ab" * 32


def test_settings_that_differ_are_columns_by_their_full_names(stored):
    rows = read(runs_table([stored("a"), stored("b", settings={"compression.keep_ratio": 0.5})]))
    assert [row["compression.keep_ratio"] for row in rows] == ["0.1", "0.5"]
    assert "seed" not in rows[0]


def test_nodes_that_were_lost_are_columns_where_there_are_any(stored):
    assert "late" not in read(runs_table([stored("a")]))[0]
    assert read(runs_table([stored("b", rows=rows_of([0.1, 0.2], late=1))]))[0]["late"] == "2.0"


def table_names(table):
    return [column.name for column in table.columns]


def test_a_mean_over_seeds_has_its_spread_beside_it(stored):
    runs = [stored("a", rows=rows_of([0.2])), stored("b", settings={"seed": 2}, rows=rows_of([0.4]))]
    (row,) = read(points_table(points_of(runs)))
    assert row["seeds"] == "2"
    assert float(row["accuracy"]) == 0.30000000000000004
    assert round(float(row["accuracy_sd"]), 6) == 0.141421  # of a sample: sqrt(0.02)


def test_every_round_of_every_run_is_a_row(stored):
    rows = read(rounds_table([stored("a"), stored("b")]))
    assert [(row["run"], row["round_number"]) for row in rows] == [(name, str(n)) for name in "ab" for n in (1, 2, 3)]
    assert rows[0]["accuracy"] == "0.2"


def test_latex_is_escaped(stored):
    text = runs_table([stored(r"a_b&50%$\x{}#~^")]).as_latex()
    assert r"a\_b\&50\%\$\textbackslash{}x\{\}\#\textasciitilde{}\textasciicircum{}" in text
    assert text.startswith(r"\begin{tabular}{llr") and r"\bottomrule" in text


def test_what_is_not_known_is_empty_in_files(stored):
    (row,) = read(runs_table([stored(status="")]))
    assert row["model_sha256"] == "" and row["status"] == "unfinished"


SMALL = Table.of_texts(
    "k", "Small", ["name", "ε", "two\nlines"], [["a|b", "1", "0.5 ± 0.1"]], words=1, foot=[["sum", "", "2"]]
)


def test_markdown_has_a_line_a_row_and_bars_are_escaped():
    assert SMALL.as_markdown().splitlines() == [
        "| name | ε | two lines |", "| --- | --- | --- |", r"| a\|b | 1 | 0.5 ± 0.1 |", "| sum |  | 2 |",
    ]  # fmt: skip


def test_latex_with_a_caption_floats_and_its_foot_is_below_a_rule():
    assert SMALL.as_latex("90 %").splitlines() == [
        r"\begin{table}", r"\centering\small", r"\caption{90 \%}", r"\begin{tabular}{lrr}", r"\toprule",
        r"name & $\varepsilon$ & \shortstack{two\\lines} \\", r"\midrule", r"a|b & 1 & 0.5 $\pm$ 0.1 \\", r"\midrule",
        r"sum &  & 2 \\", r"\bottomrule", r"\end{tabular}", r"\end{table}",
    ]  # fmt: skip


def test_in_a_terminal_cells_are_plain_text(capsys):
    Table.of_texts("k", "", ["[bold]x"], [["[red]7"]]).show()
    said = capsys.readouterr().out
    assert "[bold]x" in said and "[red]7" in said


@pytest.mark.parametrize("title", ["", "all of them, under a title that is longer than the table is wide"])
@given(
    lines=st.lists(st.tuples(*[st.text("aä中[b]:", max_size=9)] * 2, st.integers(0, 10**6).map(str)), min_size=1),
    words=st.integers(0, 3),
)
@settings(max_examples=30)
def test_long_tables_look_as_short_ones(title, lines, words):
    table = Table.of_texts("k", title, ["[bold]x", "two words", "n"], lines, words=words)
    printed = []
    for most in (0, len(lines)):  # laid out here, and by rich
        with redirect_stdout(io.StringIO()) as out, pytest.MonkeyPatch.context() as patch:
            patch.setattr(tables, "MANY", most)
            table.show()
        printed.append(out.getvalue())
    assert printed[0] == printed[1]


def test_a_long_table_with_a_cell_that_is_too_wide_is_folded(capsys, monkeypatch):
    monkeypatch.setattr(tables, "MANY", 0)
    Table.of_texts("k", "", ["x", "y"], [["a" * 300, "b"]], words=2).show()
    assert max(map(len, capsys.readouterr().out.splitlines())) <= tables.WIDTH


# --- what programs make of the files ----------------------------------------------------------------------------------

HOSTILE = ("=cmd|' /C calc'!A0", "@SUM(1)", "+1+1", "-2+3", "\tx", "\r=1", " =1", "＝1")  # noqa: RUF001


@pytest.mark.parametrize("text", HOSTILE)
def test_no_cell_and_no_head_is_a_formula_for_a_spreadsheet(text):
    table = Table.of_texts("t", "", ["name", text], [[text, "1"]], words=1)
    head, row = csv.reader(io.StringIO(table.as_csv()))
    assert head[1] == row[0] == "'" + text.replace("\r", " ")


@pytest.mark.parametrize("text", ["-0.5", "+1e-3", "-.5", "a=b", "1+1", ""])
def test_numbers_and_other_texts_are_written_as_they_are(text):
    table = Table.of_texts("t", "", ["name"], [[text]])
    assert list(csv.DictReader(io.StringIO(table.as_csv() + "\n"))) in ([{"name": text}], [])


@pytest.mark.parametrize("text", ["[2pt]", "*", " [x", "*y"])
def test_no_row_is_an_option_of_the_row_above(text):
    table = Table.of_texts("t", "", [text, "b"], [[text, "1"], [text, "2"]], words=1, foot=[[text, "3"]])
    assert not re.findall(r"^\s*[\[*]", table.as_latex(), re.MULTILINE)
    assert table.as_latex().count("{}" + text) == 4


@pytest.mark.parametrize(
    "values", [(1.0, 1.0), (0.5, 0.5 + 1e-12), (0.5, 0.500008), (105_563.0, 105_566.0), (1_010_000.0, 1_010_008.0)]
)
def test_a_deviation_shows_or_is_not_written(values):
    spread = MeanSd.of(values)
    for form in (size_spread, ratio_spread, seconds_spread, number_spread):
        shown = form(*spread)
        assert "e-" not in shown and not re.search(r"± 0(\.0*)?\D*$", shown)
    assert ("±" in number_spread(*spread)) == (spread.sd > 1e-6 * spread.mean)


@pytest.mark.parametrize(
    ("form", "values", "shown"),
    [
        (size_spread, (105_563.0, 105_566.0), "106 kB"), (size_spread, (1_010_000.0, 1_010_008.0), "1.01 MB"),
        (size_spread, (1_000_000.0, 1_000_000.0), "1 MB"), (size_spread, (100_000.0, 112_000.0), "106 ± 8 kB"),
        (ratio_spread, (1.0, 1.0001), "1.00x"), (ratio_spread, (9.9, 10.1), "10.00 ± 0.14x"),
        (seconds_spread, (2.9, 6.0), "4.5 ± 2.2 s"), (number_spread, (0.5, 0.5), "0.5000"),
    ],
)  # fmt: skip
def test_what_does_not_vary_is_a_plain_number(form, values, shown):
    assert form(*MeanSd.of(values)) == shown


def test_tables_of_papers_have_neither_time_nor_hash_nor_what_is_all_alike(stored):
    runs = [
        stored(name, started={"plain_bytes": 250}, settings={"training.lr": lr}) for name, lr in (("a", 0.1), ("b", 1))
    ]
    table = runs_table(runs)
    assert "compression_ratio" not in read(table)[0]  # nothing was compressed
    of_paper = read(for_papers(table))[0]
    assert set(table_names(table)) - set(of_paper) == {"seconds", "model_sha256", "status", "rounds"}
    assert of_paper["training.lr"] == "0.1"
    assert "seconds" not in read(for_papers(points_table(points_of(runs))))[0]


def test_a_column_of_how_much_smaller_stands_where_a_run_is_compressed(stored):
    assert read(runs_table([stored("a"), stored("b", started={"plain_bytes": 250})]))[1]["compression_ratio"] == "1.0"


def test_columns_are_chosen_by_name_or_title_and_the_first_stays(stored):
    table = runs_table([stored("a", settings={"seed": 2}), stored("b")])
    assert table_names(table.with_columns(["uploaded", "seed", "accuracy"])) == ["run", "bytes_up", "seed", "accuracy"]


def test_settings_of_one_last_word_are_told_apart_and_what_is_not_read_is_empty(stored):
    skewed = {"model.name": "linear", "strategy.name": "median", "data.partition": "dirichlet", "data.alpha": 0.1}
    table = runs_table([stored("a"), stored("b", settings=skewed)])
    titles = {column.name: column.title for column in table.columns}
    assert (titles["model.name"], titles["strategy.name"]) == ("model", "strategy")
    assert [row["data.alpha"] for row in read(table)] == ["", "0.1"]
