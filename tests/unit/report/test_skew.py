"""The label distribution is drawn from the counts that a run stored, and from nothing else in its folder."""

from __future__ import annotations

import json
import os

import pytest

from fedlearn.core.client_facts import CLASS, EXAMPLE, LABEL, Dealt
from fedlearn.report.charts.skew import MOST_NODES, skew_of
from fedlearn.report.page.sections import sections_of
from fedlearn.report.stored import read_run
from fedlearn.runs.label_counts import read_dealt

TWO_NODES = Dealt(2, CLASS, ((3, 0), (1, 5)))


@pytest.fixture
def dealt_run(make_run):
    """Write a run folder with its counts, and read it."""

    def dealt_run(dealt=TWO_NODES, *, name="run", names=("cat", "dog"), **given):
        folder = make_run(name, dealt=dealt, **given)
        spec = {"name": "pets", "shape": [2], "dtype": "float32", "classes": 2, "class_names": names}
        (folder / "data.json").write_text(json.dumps(spec))
        return read_run(name, folder)

    return dealt_run


def section_of(*runs):
    return sections_of(runs, title="t", link=lambda run, name: "")["skew"]


def test_the_counts_of_a_run_are_drawn_under_the_names_of_its_classes(dealt_run):
    picture = skew_of(dealt_run(settings={"data.dataset": "/home/me/pets.csv", "data.partition": "dirichlet"}))
    assert picture.counts.tolist() == [[3, 0], [1, 5]]
    assert (picture.rows, picture.x_title, picture.y_title) == (("cat", "dog"), "client", "class")
    assert picture.title == "class by client: pets.csv, dirichlet, alpha 0.5, seed 1"


def test_of_many_nodes_the_first_are_drawn_and_the_number_of_all_is_said(dealt_run):
    picture = skew_of(dealt_run(Dealt(1_000_000, LABEL, (tuple(range(150)),))))
    assert picture.counts.shape == (1, MOST_NODES) and picture.x_title == "first 100 of 1000000 clients"


def test_labels_without_names_are_numbers_and_examples_without_labels_one_row(dealt_run):
    assert skew_of(dealt_run(Dealt(1, LABEL, ((2,), (3,))), name="a")).rows == ("0", "1")
    assert skew_of(dealt_run(Dealt(1, EXAMPLE, ((2,),)), name="b")).rows == ("all",)
    assert skew_of(dealt_run(name="c", names=("cat",))).rows == ("cat", "1")


def test_runs_without_counts_have_no_section(make_run):
    assert section_of(*(read_run(name, make_run(name, dealt=None)) for name in ("a", "b"))) == ""


def test_runs_that_dealt_alike_share_a_picture(dealt_run):
    runs = [
        dealt_run(name="a"),
        dealt_run(name="b", settings={"seed": 2}),
        dealt_run(name="c", settings={"clients": 2}),
    ]
    drawn = section_of(*runs)
    assert drawn.count("<figure>") == 2
    assert "at most 5 in a cell. Of a, b." in drawn


@pytest.mark.parametrize(
    "content",
    [
        "", "[" * 100_000, "[]", "{}", '{"nodes": 2, "what": "class", "counts": []}',
        '{"nodes": 2, "what": "class", "counts": [[1, 2], [3]]}', '{"nodes": 2, "what": "class", "counts": [[-1, 2]]}',
        '{"nodes": 1, "what": "class", "counts": [[1, 2]]}', '{"nodes": 2, "what": "<script>", "counts": [[1, 2]]}',
        '{"nodes": 2, "what": "class", "counts": [[1e300, 2]]}', '{"nodes": "2", "what": "class", "counts": [[1, 2]]}',
        '{"nodes": 2, "what": ["class"], "counts": [[1, 2]]}', '{"nodes": true, "what": "class", "counts": [[1]]}',
    ],
)  # fmt: skip
def test_counts_that_no_run_has_written_are_a_sentence(make_run, content):
    folder = make_run()
    (folder / "dealt.json").write_text(content)
    with pytest.raises(ValueError, match="it is not what was written"):
        read_dealt(folder)
    assert "dealt.json: it is not what was written" in section_of(read_run("run", folder))


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.mkdir()])
def test_counts_that_are_no_regular_file_are_a_sentence_at_once(make_run, make):
    folder = make_run(dealt=None)
    make(folder / "dealt.json")
    assert "No picture of run: dealt.json: " in section_of(read_run("run", folder))


def test_names_of_classes_are_escaped(dealt_run):
    assert "<img" not in section_of(dealt_run(names=("<img src=x>", "dog")))


def test_no_code_and_no_data_that_a_run_folder_names_is_looked_at(make_run, monkeypatch):
    monkeypatch.setattr("os.system", lambda command: pytest.fail("it was run"))
    run = read_run("run", make_run(dealt=None, settings={"data.dataset": "os:system", "data.dir": "x"}))
    assert isinstance(skew_of(run), str)
