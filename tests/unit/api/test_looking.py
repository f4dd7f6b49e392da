"""Runs as objects of Python: a list, a comparison, a curve, one line."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import fedlearn
from fedlearn.core.errors import UsageError


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("looking") / "runs"
    small = {"data": "digits", "model": "linear", "rounds": 2, "engine": "inline", "progress": False}
    return [fedlearn.run(clients=3, lr=lr, out=folder / name, **small) for name, lr in (("a", 0.05), ("b", 0.01))]


def test_a_run_says_its_state_rounds_and_score_in_one_line(two):
    score = f"{two[0].summary['accuracy']:.4f}"
    assert repr(two[0]) == f"<Run {two[0].folder}: completed, 2 of 2 rounds, accuracy {score}>"


def test_a_run_shows_itself_in_a_notebook_as_a_table(two):
    rows = dict(re.findall(r"<tr><th [^>]*>(.*?)</th><td [^>]*>(.*?)</td></tr>", two[0]._repr_html_()))
    assert rows["SHA-256"] == two[0].sha256 and rows["accuracy"].startswith(f"{two[0].summary['accuracy']:.4f} ")


def test_runs_of_a_folder_are_the_rows_of_a_frame(two):
    found = fedlearn.runs(two[0].folder.parent)
    assert list(found.index) == ["a", "b"] and set(found["state"]) == {"completed"}
    assert [fedlearn.load(folder).sha256 for folder in found["folder"]] == list(found["sha256"])
    assert list(found["score"]) == [run.summary["accuracy"] for run in two]
    assert list(found["bytes_up"]) == [run.history["bytes_up"].sum() for run in two]


def test_the_package_of_that_name_is_called_whoever_imported_it_first():
    code = "import fedlearn.runs.file_names, fedlearn; from fedlearn import runs; assert callable(runs)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_two_runs_are_told_apart_by_settings_and_bytes(two):
    found = fedlearn.compare(*two)
    assert found.settings.to_dict("index") == {"training.lr": {"A": 0.05, "B": 0.01}}
    assert not found.same_bytes and found.parting_round == 1
    assert "training.lr" in repr(found) and "training.lr" in found._repr_html_()
    same = fedlearn.compare(two[0], str(two[0].folder))
    assert same.same_bytes and same.parting_round is None and same.settings.empty


def test_a_curve_is_a_figure_of_the_metric_that_is_asked_for(two):
    (axes,) = two[0].plot("loss").axes
    line = next(each for each in axes.lines if len(each.get_xdata()) == 2)
    assert list(line.get_ydata()) == pytest.approx(list(two[0].history["loss"]), rel=1e-5)
    assert two[0].plot().axes[0].get_ylabel() == "accuracy" != axes.get_ylabel()


def test_what_is_not_there_is_named(two, tmp_path):
    with pytest.raises(UsageError, match=r"no curve of metric 'nothing'; it has accuracy, loss"):
        two[0].plot("nothing")
    for call in (lambda: fedlearn.runs(tmp_path / "none"), lambda: fedlearn.compare(two[0], tmp_path)):
        with pytest.raises(UsageError):
            call()


def test_dir_lists_what_users_call():
    assert {"run", "load", "runs", "compare", "session", "data", "models"} <= set(dir(fedlearn))
    assert all(hasattr(fedlearn, name) for name in dir(fedlearn))
