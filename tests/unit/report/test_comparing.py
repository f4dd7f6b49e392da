"""The comparison of two runs, in a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from fedlearn.core.errors import UsageError
from fedlearn.report.comparing import compared, verdicts, write_comparison
from tests.unit.report.conftest import rows_of


def said(a, b):
    console = Console(file=io.StringIO(), width=200)
    console.print(compared(a, b))
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def test_settings_and_results_stand_side_by_side(make_run):
    other = rows_of([0.2, 0.5, 0.6], bytes_up=50)
    lines = said(make_run("a"), make_run("b", other, {"compression.codec": "drop"}))
    assert "compression.codec identity drop" in lines
    assert "accuracy 0.4000 0.6000 +0.2000" in lines
    assert "uploaded 1.5 kB 150 B -1.35 kB" in lines
    assert "the curves part in round 1: bytes up" in lines


def test_the_first_round_in_which_they_differ_is_named(stored):
    a, b = stored("a", rows=rows_of([0.2, 0.5, 0.6])), stored("b", rows=rows_of([0.2, 0.4, 0.6]))
    assert verdicts(a, b)[0] == "the curves part in round 2: accuracy"


def test_the_comparison_is_a_page_too(make_run, tmp_path):
    a, b = make_run("<a>", rows_of([0.2, 0.5, 0.6])), make_run("b", rows_of([0.2, 0.4, 0.6]), {"training.lr": 0.3})
    page = write_comparison(a, b, tmp_path / "two.html").read_text()
    for word in ("A &lt;a&gt;", "the curves part in round 2: accuracy", "training.lr", "+0.0000", "accuracy by round"):
        assert word in page, word
    assert "<a>" not in page and "&quot;parted&quot;:2" in page


def test_a_page_that_cannot_be_written_is_a_line(make_run, tmp_path):
    with pytest.raises(UsageError, match=r"--html .*: it is a folder"):
        write_comparison(make_run("a"), make_run("b"), tmp_path)


def test_time_is_no_difference(stored):
    a, b = stored("a"), stored("b", rows=rows_of([0.2, 0.5, 0.4], training_seconds=7.0))
    assert verdicts(a, b) == ["the curves are the same in all 3 rounds", f"same model, SHA-256 {'ab' * 32}"]


def test_one_that_goes_on_longer_is_said_to(stored):
    a, b = stored("a"), stored("b", rows=rows_of([0.2, 0.5, 0.4, 0.5]))
    assert verdicts(a, b)[0] == "the curves are the same for 3 rounds; then only one continues"


def test_a_run_that_has_not_ended_has_no_final_model(stored):
    assert "has not ended" in verdicts(stored("a"), stored("b", status=""))[1]


def test_versions_that_differ_are_named(make_run):
    folders = make_run("a"), make_run("b")
    path = folders[1] / "environment.json"
    path.write_text(path.read_text().replace('"flwr": "', '"flwr": "9.'))
    lines = said(*folders)
    assert any(line.startswith("flwr ") and " 9." in line for line in lines)
    assert not any(line.startswith("numpy") for line in lines)


def test_markup_in_a_run_is_text(make_run):
    lines = said(make_run("[bold]a"), make_run("b", status="[red]done"))
    assert any("[bold]a" in line for line in lines) and any("[red]done" in line for line in lines)


@pytest.mark.parametrize(("name", "line"), [("nothing", "there is no such folder"), (".", "it is no run folder")])
def test_what_is_no_run_is_said_in_a_line(make_run, tmp_path, name, line):
    with pytest.raises(UsageError, match=line):
        compared(make_run(), tmp_path / name)
