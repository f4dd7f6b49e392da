"""Run folders that are broken or hostile, looked at by the report, the live page and the comparison. F1, F2 and F4.

Whatever such a folder holds costs a line and nothing else: no exception, no waiting, no memory, no empty page for the
runs beside it, no escape that reaches a terminal. FEDLEARN_SPOILED sets how many folders are spoiled at random.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import signal
import socket
import time

import httpx
import pytest
from rich.console import Console

from fedlearn.report import serving
from fedlearn.report.comparing import compared
from fedlearn.report.serving import Site, Watched
from fedlearn.report.stored import read_run
from fedlearn.report.writing import write_report
from tests.adversary.test_stored import spoil
from tests.unit.report.conftest import STARTED, committed, make_run, rows_of, write_events, write_rows

__all__ = ["make_run"]

SPOILED = int(os.environ.get("FEDLEARN_SPOILED", "50"))
FILES = ("settings.toml", "environment.json", "summary.json", "metrics.csv", "events.jsonl")
PATIENCE = 120  # seconds; what waits for a pipe would wait for ever
ESCAPES = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m\x7f"
UNSEEN = {letter for letter in ESCAPES if not letter.isprintable()}


@pytest.fixture(autouse=True)
def no_waiting():
    """End a test that hangs."""

    def hang(*_):
        raise TimeoutError("it waits for something that never comes")

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def page_beside(sound, *hostile):
    """Return the live page of a sound run and hostile ones, looked at twice, as a browser does."""
    watched = Watched([sound, *hostile])
    for _ in range(2):
        watched.look()
    page = "".join(watched.sections.values())
    assert "sound" in page and len(page) > 5000, "the sound run is not shown"
    assert not UNSEEN & set(page.replace("\n", ""))
    return page


def looked_at(sound, *hostile):
    """Look at hostile runs in every way there is, and return the page; none of them may be left out of it."""
    for folder in hostile:
        run = read_run("hostile", folder)
        assert all(problem.isprintable() and len(problem) < 600 for problem in run.problems)
        console = Console(file=io.StringIO(), width=100)
        console.print(compared(sound, folder))
        assert not UNSEEN & set(console.file.getvalue().replace("\n", ""))
    page = page_beside(sound, *hostile)
    assert "cannot be shown" not in page
    return page


# --- F1: numbers ------------------------------------------------------------------------------------------------------

NUMBERS = [
    "1e400",
    "-1e400",
    "NaN",
    "1e99",
    "1e17",
    "-1e99",
    "1e-320",
    "0",
    "-3",
    "9" * 4000,
    "9" * 5000,
    '"x"',
    "[[]]",
]


@pytest.mark.parametrize(
    "field", ["rounds", "round", "cohort", "committed", "plain_bytes", "bytes_up", "time", "status"]
)
def test_f1_number_in_an_event_costs_no_page(make_run, field):
    events = [STARTED, {"event": "round-started", "round": 2, "attempt": 1, "time": 1.0}]
    events += [{"event": "configured", "cohort": 2}, *map(committed, rows_of([0.5])), {"event": "ended", "status": "x"}]
    hostile = []
    for name, number in enumerate(NUMBERS):
        hostile.append(make_run(f"hostile{name}", status=""))
        with (hostile[-1] / "events.jsonl").open("a") as file:
            for event in events:
                marked = json.dumps({**event, field: "HERE"} if field in event else event)
                file.write(marked.replace('"HERE"', number) + "\n")
    looked_at(make_run("sound"), *hostile)


@pytest.mark.parametrize("count", [1, 2, 20])
@pytest.mark.parametrize("column", ["round_number", "accuracy", "bytes_up", "training_seconds"])
def test_f1_number_in_the_table_costs_no_page(make_run, column, count):
    sound = make_run("sound")
    for number in ["1e17", "1e99", "1e-320", "-1e99", "0", "inf", "5e-324", "1e400"]:
        hostile = make_run(f"hostile{number}", settings={"clients": 1})
        write_rows(hostile, [{**row, column: number} for row in rows_of([0.5] * count)])
        looked_at(sound, hostile)


@pytest.mark.parametrize("column", ["round_number", "accuracy", "bytes_up", "training_seconds"])
def test_f1_numbers_in_any_order_cost_no_page(make_run, column):
    sound = make_run("sound")
    for numbers in [(5, -10, 3), (2, 1), (1e17, 1e17 + 16), (0, 1e-11), (1, 1e99), (-1e99, 1e99), (3, 3)]:
        hostile = make_run(f"hostile{numbers}", settings={"clients": 1})
        rows = zip(rows_of([0.5] * len(numbers)), numbers, strict=True)
        write_rows(hostile, [{**row, column: number} for row, number in rows])
        looked_at(sound, hostile)


def test_f1_figure_that_cannot_be_drawn_costs_a_line(make_run, tmp_path):
    hostile = make_run("hostile", settings={"clients": 1})
    rows = zip(rows_of([0.5] * 4), ["1e99", "1e-320", "1e17", "-1e99"], strict=True)
    write_rows(hostile, [{**row, "accuracy": number, "round_number": number} for row, number in rows])
    page, _ = write_report([hostile], tmp_path / "out")
    assert page.stat().st_size > 5000


def test_f1_settings_that_python_cannot_write_cost_a_line(make_run):
    hostile = []
    texts = ["seed = " + "9" * 5000, "seed = 0x" + "f" * 9000, "a" + ".a" * 3000 + " = 1", "a = " + "[" * 9000]
    for number, text in enumerate([*texts, "out = '\ud800'"]):
        hostile.append(make_run(f"hostile{number}"))
        (hostile[-1] / "settings.toml").write_bytes(text.encode(errors="surrogatepass"))
    looked_at(make_run("sound"), *hostile)


# --- F1: files that are none ------------------------------------------------------------------------------------------


def fifo(path, _):
    os.mkfifo(path)


def device(path, _):
    path.symlink_to("/dev/zero")


def link_outside(path, tmp_path):
    (tmp_path / "secret").write_text('secret = "of somebody else"\n{"secret": "of somebody else"}')
    path.symlink_to(tmp_path / "secret")


def loop(path, _):
    path.symlink_to(path)


def folder(path, _):
    path.mkdir()


def listener(path, tmp_path):
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(path.parent)  # paths of sockets are short
        made.bind(path.name)


def sparse(path, _):
    with path.open("wb") as file:
        file.truncate(1 << 42)  # 4 TiB


ATTACKS = (fifo, device, link_outside, loop, folder, listener, sparse)


@pytest.mark.parametrize("name", FILES)
def test_f1_only_regular_files_are_read(make_run, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    hostile = []
    for attack in ATTACKS:
        hostile.append(make_run(f"hostile_{attack.__name__}", dealt=None))
        (hostile[-1] / name).unlink()
        attack(hostile[-1] / name, tmp_path)
        run = read_run("hostile", hostile[-1])
        assert any(problem.startswith(f"hostile: {name}") for problem in run.problems), attack
    page = looked_at(make_run("sound"), *hostile)
    assert "of somebody else" not in page


def test_f1_line_without_an_end_is_not_kept(make_run):
    hostile = make_run("hostile", status="")
    with (hostile / "events.jsonl").open("ab") as file:
        file.write(b'{"event": "failed", "reason": "' + b"x" * (5 << 20) + b'"}\n')
    write_events(hostile, [{"time": 9.0, "event": "ended", "status": "failed", "reason": ""}])
    run = read_run("hostile", hostile)
    assert run.status == "failed"
    assert max((len(reason) for _, reason in run.log.wrong), default=0) < 400


@pytest.mark.parametrize("line", [b"", b'{"event": 3}\n'])
def test_f1_log_of_which_hardly_anything_is_events_is_given_up(make_run, line):
    """A terabyte of zeros, in lines or in one; older versions read it to its end, at each look."""
    hostile = make_run("hostile", status="")
    path = hostile / "events.jsonl"
    size = path.stat().st_size
    with path.open("r+b") as file:
        for place in range(1, 40):
            file.seek(size + place * (10 << 20))
            file.write(line)
    os.truncate(path, 1 << 40)
    begin = time.monotonic()
    (problem,) = [problem for problem in read_run("hostile", hostile).problems if "events.jsonl" in problem]
    assert problem.endswith(" bytes of it are no events: the rest is not read")
    page_beside(make_run("sound"), hostile)
    assert time.monotonic() - begin < 20


def test_f1_log_may_hold_lines_that_are_no_events(make_run):
    hostile = make_run("hostile", status="")
    with (hostile / "events.jsonl").open("ab") as file:
        file.write(b"x" * 50 + b"\n" + b"\0" * (3 << 20) + b"\n[]\n")
    write_events(hostile, [{"time": 9.0, "event": "ended", "status": "failed", "reason": ""}])
    run = read_run("hostile", hostile)
    assert run.status == "failed" and not any("events" in problem for problem in run.problems)


def test_f1_ten_thousand_columns_are_a_line(make_run):
    hostile = make_run("hostile")
    names = [f"m{number}" for number in range(10_000)]
    (hostile / "metrics.csv").write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    assert "10000 columns" in "".join(read_run("hostile", hostile).problems)
    looked_at(make_run("sound"), hostile)


def test_f1_data_set_of_the_folders_choice_is_not_read(make_run, tmp_path):
    """The label distribution comes from counts in the folder; a pipe that is named as the data set is not opened."""
    os.mkfifo(tmp_path / "evil.toml")
    settings = {"data.dataset": str(tmp_path / "evil.toml"), "data.partition": str(tmp_path / "evil.toml")}
    hostile = make_run("hostile", settings=settings, dealt=None)
    page = looked_at(make_run("sound"), hostile)
    assert page.count("<h3>label by client") == 1  # that of the sound run


@pytest.mark.parametrize("name", ["nodes.csv", "classes.json", "statistics.json", "notes.txt", "dealt.json"])
def test_f1_what_only_some_runs_have_is_read_of_regular_files_alone(make_run, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    hostile = []
    for attack in ATTACKS:
        hostile.append(make_run(f"hostile_{attack.__name__}", dealt=None))
        attack(hostile[-1] / name, tmp_path)
    sound = make_run("sound")
    for each in hostile:  # nodes and classes are those of few runs
        page = page_beside(make_run(f"{each.name}/sound"), each)
        alone = Watched([each])
        alone.look()
        assert "of somebody else" not in page + "".join(alone.sections.values())
        assert "cannot be shown" not in page + "".join(alone.sections.values())
    looked_at(sound, *hostile)


@pytest.mark.parametrize(
    "number", ["1e400", "NaN", "1e99", "-1e99", "1e-320", "0", "-3", "x", '"<script>"', "9" * 5000]
)
def test_f1_number_in_the_table_of_nodes_costs_no_page(make_run, number):
    for column in range(3):
        hostile = make_run(f"{column}")
        cells = [["1", "0", "0.5"], ["1", "1", "0.25"], ["2", "0", "0.75"]]
        cells[1][column] = number
        (hostile / "nodes.csv").write_text("\n".join(["round,partition,accuracy", *map(",".join, cells)]) + "\n")
        looked_at(make_run(f"sound{column}"), hostile)
        alone = Watched([hostile])
        alone.look()
        assert "cannot be shown" not in alone.sections["head"] and "<script>&" not in alone.sections["nodes"]


def costs_no_page(make_run, name, text, *, says):
    """Check that a file of a run folder's choice spoils neither its own page nor that of several runs."""
    hostile = make_run("hostile")
    (hostile / name).write_text(text)
    alone = Watched([hostile])
    alone.look()
    page = "".join(alone.sections.values())
    assert "cannot be shown" not in page and "<img" not in page and "\u202e" not in page and says in page
    looked_at(make_run("sound"), hostile)


@pytest.mark.parametrize(
    "text",
    [
        '{"classes": ["<img src=x>", "\\u202e"], "final": {"round_number": 1, "confusion": [[1, 2], [3, 4]]}}',
        '{"classes": ["a", "b"], "final": {"round_number": 1, "confusion": [[-1, 2], [3, 4]]}}',
        '{"classes": ["a", "b"], "final": {"round_number": 1, "confusion": [[9007199254740992, 2], [3, 1e300]]}}',
        '{"classes": ["a", "b"], "final": {"round_number": 1, "confusion": [[0, 0], [0, 0]]}}',
        '{"classes": ' + "[" * 9000,
    ],
)
def test_f1_classes_of_the_folders_choice_cost_no_page(make_run, text):
    costs_no_page(make_run, "classes.json", text, says="classes")


@pytest.mark.parametrize(
    "text",
    [
        '{"count": 1, "deviation": 0, "columns": {"<img src=x>": {"labels": ["<img>", "\\u202e"], "counts": [1, 2]}}}',
        '{"count": 1e300, "deviation": 0, "columns": {}}',
        '{"count": NaN, "deviation": 0, "columns": {}}',
        '{"count": 1, "deviation": 0, "columns": {"a": {"labels": [], "counts": []}}}',
        '{"count": 1, "deviation": 0, "columns": {"a": {"labels": ["x", "y"], "counts": [1]}}}',
        '{"count": 1, "deviation": 0, "columns": {"a": {"labels": ["x"], "counts": [-1], "mean": 1e308}}}',
        '{"count": ' + "[" * 9000,
    ],
)
def test_f1_statistics_of_the_folders_choice_cost_no_page(make_run, text):
    costs_no_page(make_run, "statistics.json", text, says="tatistics")


# --- F2: the page of all others ---------------------------------------------------------------------------------------


def test_f2_page_goes_on_after_a_run_that_cannot_be_drawn(make_run, monkeypatch):
    """Whatever is still wrong in the drawing is that run's alone, and is said at each look."""
    from fedlearn.report.page import sections

    real = sections._results

    def bug(runs, points):
        if any(run.name == "hostile" for run in runs):
            raise ZeroDivisionError("a bug that nobody has found yet")
        return real(runs, points)

    monkeypatch.setattr(sections, "_results", bug)
    page = page_beside(make_run("sound"), make_run("hostile"))
    assert "hostile: it cannot be shown: ZeroDivisionError: a bug that nobody has found yet" in page
    watched = Watched([make_run("alone/hostile")])
    watched.look()
    assert "it cannot be shown" in watched.sections["head"]


def test_f2_look_that_failed_is_tried_again(make_run, monkeypatch):
    watched = Watched([make_run("sound")])
    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(serving, "sections_of", lambda *_, **__: (_ for _ in ()).throw(RuntimeError()))
        watched.look()
    watched.look()
    assert "accuracy" in "".join(watched.sections.values())


@pytest.mark.parametrize("name", (*FILES, "dealt.json"))
def test_f1_f2_folder_spoiled_at_random_costs_a_line(make_run, name):
    sound, hostile = make_run("sound"), []
    for seed in range(max(SPOILED // len(FILES), 1)):
        hostile.append(make_run(f"{seed}/hostile", settings={"clients": 1}))
        rng = random.Random(f"{name} {seed}")
        for _ in range(rng.choice((1, 1, 3))):
            if (hostile[-1] / name).is_file() and (hostile[-1] / name).stat().st_size:
                spoil(hostile[-1] / name, rng)
    for first in range(0, len(hostile), 10):
        looked_at(sound, *hostile[first : first + 10])


# --- F4, and whom the page answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "answered"),
    [
        ("[::1]:8765", True), ("[::1]", True), ("127.0.0.1:1", True), ("localhost", True), ("evil.example", False),
        ("[::2]:8765", False), ("[::1].evil.example", False), ("localhost.evil.example:8765", False), ("", False),
        ("127.0.0.1.evil.example", False), ("[", False), ("::1", False), ("localhost\x00", False),
    ],
)  # fmt: skip
def test_f4_page_answers_to_the_addresses_that_it_prints_and_no_other(make_run, host, answered):
    app = Site(Watched([make_run()]), local=True).app()

    async def asked():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return await client.get("/", headers={"Host": host})

    assert asyncio.run(asked()).status_code == (200 if answered else 400)


# --- escapes ----------------------------------------------------------------------------------------------------------


def test_escapes_of_a_folder_reach_neither_page_nor_terminal(make_run):
    metrics = {
        "reported": [],
        "evaluated": [{"name": "accuracy", "title": f"acc{ESCAPES}", "unit": ESCAPES, "note": ESCAPES}],
    }
    started = {
        name: f"{value}{ESCAPES}" for name, value in STARTED.items() if isinstance(value, str) and name != "event"
    }
    hostile = make_run(f"hostile{ESCAPES.replace('/', '')}", started={**started, "notice": ESCAPES, "metrics": metrics})
    write_events(hostile, [{"event": "failed", "round": 1, "attempt": 1, "reason": f"no{ESCAPES}"}])
    write_events(hostile, [{"event": "ended", "status": f"failed{ESCAPES}", "reason": ESCAPES, "time": 1.0}])
    (hostile / "summary.json").write_text(
        json.dumps({"status": "failed", "reason": f"x{ESCAPES}", "model_sha256": ESCAPES})
    )
    (hostile / "environment.json").write_text(json.dumps({f"python{ESCAPES}": ESCAPES, "packages": {ESCAPES: ESCAPES}}))
    text = (hostile / "settings.toml").read_text()
    (hostile / "settings.toml").write_text(text.replace('"fedavg"', json.dumps(f"fedavg{ESCAPES}")))
    looked_at(make_run("sound"), hostile)
