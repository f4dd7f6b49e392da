"""Many run folders are read fast, and as each is read alone."""

from __future__ import annotations

import pytest

from fedlearn.config.load import flat_from_toml
from fedlearn.report import stored as reading
from fedlearn.report.charts.kinds import Line
from fedlearn.report.charts.plots import MOST_NAMES, add_line, add_unnamed, drawn
from fedlearn.report.folders import run_folders
from fedlearn.report.number_rows import node_rows
from fedlearn.report.points import differing
from fedlearn.report.stored import read_run
from fedlearn.runs.log import EventTail, has_ended, other_events
from fedlearn.runs.safe_reading import cleaned

REPORTED = {"time": 1.0, "event": "reported", "round": 1, "attempt": 1, "node": 2, "partition": 0, "bytes": 250}
LATE = {"time": 1.0, "event": "late", "round": 1, "attempt": 1, "node": 3, "partition": 1, "reason": "too slow"}


def test_what_only_a_live_page_shows_is_passed_over_where_a_run_has_ended(make_run):
    ended = read_run("a", make_run("a", events=[REPORTED, LATE]))
    going = read_run("b", make_run("b", events=[REPORTED, LATE], status=""))
    assert ended.log.wrong == going.log.wrong == {("late", "too slow"): 1}
    assert (ended.status, going.status) == ("completed", "unfinished")
    assert going.log.view.rounds == ended.log.view.rounds > 0
    assert (going.log.view.committed, ended.log.view.committed) == (3, 0)
    assert going.log.view.nodes["late"] == ended.log.view.nodes["late"] == 1
    assert (going.log.view.nodes["reported"], ended.log.view.nodes["reported"]) == (1, 0)


@pytest.mark.parametrize("piece", [7, 64, 1 << 22])
def test_events_of_some_kinds_are_those_of_all_events(tmp_path, monkeypatch, piece):
    monkeypatch.setattr("fedlearn.runs.log.PIECE", piece)
    kinds = ["started", "ready", "late", "late", "reported", "failed", "failed", "ended"]
    lines = [f'{{"time": {at}.0, "event": "{kind}", "event_before": "{kind}"}}' for at, kind in enumerate(kinds)]
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(["", *lines, '{"event": "late" no JSON', lines[2]]) + "\n" + '{"event": "late"')
    wanted = [event for event in EventTail(path).read() if event["event"] in ("late", "ended")]
    assert [event["time"] for event in wanted] == [2.0, 3.0, 7.0, 2.0]
    assert list(EventTail(path).read(without=other_events("late", "ended"))) == wanted


def test_lines_that_are_no_events_are_counted_where_some_kinds_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("fedlearn.runs.log.PIECE", 64)
    monkeypatch.setattr("fedlearn.runs.log.MOST_WASTED", 100)
    path = tmp_path / "events.jsonl"
    path.write_text("no event\n" * 40 + '{"time": 1.0, "event": "ended"}\n')
    with pytest.raises(OSError, match="no events"):
        list(EventTail(path).read(without=other_events("ended")))


def test_events_in_another_form_than_ours_are_read(tmp_path):
    path = tmp_path / "events.jsonl"
    ours = ['{"time": 1.5, "virtual": 1e-06, "event": "ready"}', '{"time": 2.0, "event": "ready", "why": "\\n"}']
    others = ['{"event": "ended", "time": 3.0}', '{"event":"ready"}', ' {"time": 4.0, "event": "ended"}']
    path.write_bytes("\r\n".join([*ours, *others, *ours, ""]).encode())
    read = [event["event"] for event in EventTail(path).read(without=other_events("ended"))]
    assert read == ["ended", "ready", "ended"]


def test_nodes_are_read_only_where_the_first_line_has_the_columns(make_run):
    folder = make_run("a")
    assert node_rows(folder, ["accuracy"]) == ((), "")  # there is no file
    (folder / "nodes.csv").write_text("round,partition,accuracy\n1,0,0.5\n1,1\n")
    assert node_rows(folder, ["accuracy", "test_examples"]) == ((), "")
    rows, problem = node_rows(folder, ["round", "accuracy"])
    assert [row["accuracy"] for row in rows] == [0.5]
    assert "beyond row 1" in problem
    (folder / "nodes.csv").write_text('"round","partition","accuracy"\n1,0,0.25\n')  # as other programs write it
    assert [row["accuracy"] for row in node_rows(folder, ["round", "accuracy"])[0]] == [0.25]
    (folder / "nodes.csv").unlink()
    (folder / "nodes.csv").mkdir()
    assert "nodes.csv" in node_rows(folder, ["accuracy"])[1]


@pytest.mark.parametrize("points", [1, 3])
def test_more_lines_than_have_names_are_drawn_at_the_same_places(tmp_path, points):
    x = tuple(range(1, points + 1))
    lines = tuple(
        Line(f"line {slot}", slot, x, tuple(slot + each for each in x), x, tuple(2.0 * each for each in x))
        for slot in range(MOST_NAMES + 1)
    )
    with drawn(tmp_path, "one", columns=2) as (together, singly):
        add_unnamed(together, lines)
        for line in lines:
            add_line(singly, line)
        assert together.dataLim.bounds == pytest.approx(singly.dataLim.bounds)


def test_only_the_last_line_says_that_a_run_has_ended(make_run):
    folder = make_run("a")
    assert has_ended(folder / "events.jsonl")
    with (folder / "events.jsonl").open("a") as file:
        file.write('{"time": 10.0, "event": "started", "committed": 3, "rounds": 5}\n')
    assert not has_ended(folder / "events.jsonl")
    assert read_run("a", folder).status == "unfinished"


HOSTILE = [
    b"clients = 4\n[data]\ndataset = 'x'\n[model]\nname = \"a\"\n",
    b"[data]\na = 1\n[data]\nb = 2\n",  # a table twice
    b'[data]\na = """\n[model]\nname = 1\n"""\n',  # a header within a text
    b"[data]\na = '''\n[model]\n'''\n",
    b"[data]\na = [\n[1],\n]\n[rounds]\ntotal = 1\n",
    b"[data]\na = [\n[model]\n]\n",
    b"[data]\na = {b = 1}\n[data.c]\nd = 1\n",
    b"x\n[data]\na = 1\n",
    b"[data]\r\na = 1\r\n[model]\r\nb = 2\r\n",
    b"\xff[data]\n",
    b"",
]


@pytest.mark.parametrize("data", HOSTILE)
def test_a_file_in_parts_is_the_file_as_a_whole(data):
    try:
        whole = flat_from_toml(data)
    except ValueError as error:
        with pytest.raises(ValueError, match="TOML") as found:
            reading._flat(data)
        assert str(found.value) == str(error)
    else:
        assert reading._flat(data) == cleaned(whole)


def test_settings_of_one_run_are_not_those_of_another(make_run):
    runs = [read_run(n, make_run(n, settings={"training.lr": lr})) for n, lr in (("a", 0.1), ("b", 0.2), ("c", 0.1))]
    assert [run.settings["training.lr"] for run in runs] == [0.1, 0.2, 0.1]
    assert differing(runs) == ["training.lr"]
    assert differing(runs[::2]) == []


def test_a_folder_that_is_named_twice_is_one_run(make_run, tmp_path):
    make_run("a")
    assert list(run_folders([tmp_path, tmp_path / "a"])) == ["a"]
