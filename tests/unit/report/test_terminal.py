"""The line of a round shows the metrics of the model."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from fedlearn.report.terminal import drawing, plain_line
from fedlearn.runs.history import COLUMNS
from fedlearn.runs.log import RunView

ROW = {name: 2 for name in COLUMNS if name != "round_number"} | {"bytes_up": 500, "uploads": 2}
NEURAL = {"train_loss": 1.5, "loss": 1.25, "accuracy": None}
FOREST = {"epsilon": 1.0, "mae": 63283.94, "mae_scaled": 0.1305}


def view_of(measured, plain_bytes):
    view = RunView()
    about = {
        "model": "m", "dataset": "d", "clients": 3, "cohort": 2, "strategy": "s", "codec": "c", "seed": 1,
        "rounds": 4, "committed": 0, "notice": "", "plain_bytes": plain_bytes,
    }  # fmt: skip
    view.take({"time": 0.0, "event": "started", **about})
    row = {"time": 1.0, "event": "committed", "attempt": 1, "round": 1, **ROW, **measured}
    view.take(row)
    return view, row


@pytest.mark.parametrize(
    ("measured", "plain_bytes", "line"),
    [
        (
            NEURAL,
            1000,
            "round=1/4 reported=2/2 failed=2 refused=2 late=2 train_loss=1.5000 loss=1.2500 accuracy=- bytes_up=500 "
            "compression_ratio=4.00 seconds=6.00 left=0:03",
        ),
        (
            FOREST,
            0,
            "round=1/4 reported=2/2 failed=2 refused=2 late=2 epsilon=1.0000 (spent per record) "
            "mae=63283.9 mae_scaled=0.1305 "
            "bytes_up=500 seconds=6.00 left=0:03",
        ),
    ],
)
def test_a_line_names_what_was_measured(measured, plain_bytes, line):
    assert plain_line(*view_of(measured, plain_bytes)) == line


@pytest.mark.parametrize(
    ("measured", "plain_bytes", "titles"),
    [
        (NEURAL, 1000, ["train loss", "loss", "accuracy", "upload", "smaller"]),
        (FOREST, 0, ["epsilon", "MAE", "MAE scaled", "upload", "seconds"]),
    ],
)
def test_the_drawing_has_a_column_for_each(measured, plain_bytes, titles):
    console = Console(file=io.StringIO(), width=120)
    console.print(drawing(view_of(measured, plain_bytes)[0], 2.0))
    header = console.file.getvalue().splitlines()[1]
    assert [header.index(title) for title in titles] == sorted(header.index(title) for title in titles)
    assert ("smaller" in header) == bool(plain_bytes)


def lines_of(view, width=120):
    console = Console(file=io.StringIO(), width=width)
    console.print(drawing(view, 2.0))
    return console.file.getvalue().rstrip("\n").split("\n")


def lines_at(width, measured=NEURAL):
    view, row = view_of(measured, 1000)
    for number in range(2, 5):
        view.take({**row, "round": number, "bytes_up": 1_250_000 * number})
    view.take({"time": 1.0, "event": "configured", "cohort": 20, "round": 4, "attempt": 1})
    return lines_of(view, width)


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
def test_a_round_is_one_line_in_a_narrow_terminal(width):
    lines = lines_at(width)
    assert len(lines) == 1 + 1 + 4 + 1  # what is run, titles, rounds, how far it is
    assert max(map(len, lines)) <= width


def test_what_matters_least_is_left_out_first():
    assert " ".join(lines_at(80)[1].split()) == "round reported train loss loss accuracy upload smaller seconds"
    assert " ".join(lines_at(60)[1].split()) == "round reported loss accuracy upload smaller seconds"
    assert " ".join(lines_at(40)[1].split()) == "round reported accuracy upload"
    assert "3.75 MB" in lines_at(40)[4]


def test_of_asynchronous_rounds_what_has_come_is_shown_beside_what_is_wanted():
    view, _ = view_of(NEURAL, 1000)
    view.take({"event": "round-started", "round": 2, "attempt": 1})
    view.take({"event": "collecting", "round": 2, "attempt": 1, "wanted": 5, "in_flight": 7})
    view.take({"event": "configured", "round": 2, "attempt": 1, "cohort": 1, "bytes": 10})  # one node was replaced
    view.take({"event": "reported", "round": 1, "attempt": 1, "node": 3})
    assert (view.phase, view.cohort, view.nodes["reported"]) == ("reporting", 5, 1)


def test_long_run_says_how_long_it_still_takes():
    view, row = view_of(NEURAL, 1000)
    view.about["rounds"] = 7201
    assert plain_line(view, row).endswith(" left=2:00:00")
    console = Console(file=io.StringIO(), width=120)
    console.print(drawing(view, 1.0))
    assert "ETA 2:00:00" in console.file.getvalue()
    view.take({**row, "round": 7201})
    assert " left=" not in plain_line(view, {**row, "round": 7201})


def test_early_stop_is_shown_with_its_reason():
    view, _ = view_of(NEURAL, 1000)
    view.take({"time": 2.0, "event": "stopped", "round": 1, "reason": "accuracy 0.9 has reached stop.target = 0.9"})
    assert lines_of(view)[-1] == "stopped early in round 1 because accuracy 0.9 has reached stop.target = 0.9"


def test_the_drawing_names_an_answer_that_came_after_the_window():
    view, _ = view_of(NEURAL, 1000)
    view.take({"time": 2.0, "event": "answered-late", "round": 1, "attempt": 2, "node": 7, "reason": "by 3.1 s"})
    assert view.warning == "round 1 attempt 2 answered-late: by 3.1 s"
