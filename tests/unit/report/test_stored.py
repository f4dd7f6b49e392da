"""A run folder is read as far as it can be, and what cannot be read is said."""

from __future__ import annotations

import pytest

from fedlearn.core.errors import UsageError
from fedlearn.report.folders import run_folders
from fedlearn.report.stored import read_run
from tests.unit.report.conftest import STARTED, rows_of, write_events


def test_a_whole_folder_has_no_problems(stored):
    run = stored()
    assert run.problems == ()
    assert run.status == "completed"
    assert run.column("accuracy") == [0.2, 0.5, 0.4]
    assert run.total("bytes_up") == 1500
    assert run.settings["data.dataset"] == "digits"
    assert set(run.files) == {
        "settings.toml", "environment.json", "events.jsonl", "metrics.csv", "summary.json", "dealt.json",
    }  # fmt: skip


def test_what_was_not_measured_is_nothing_and_not_zero(stored):
    run = stored(rows=rows_of([0.2, None, None]))
    assert run.column("accuracy") == [0.2, None, None]
    assert run.latest("accuracy") == 0.2


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e300"])
def test_a_number_that_no_axis_holds_is_nothing(stored, number):
    assert stored(rows=rows_of([float(number), 0.5])).column("accuracy") == [None, 0.5]


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("settings.toml", b"clients = ", "settings.toml: not valid TOML"),
        ("settings.toml", b"a = " + b"[" * 100_000, "settings.toml"),
        ("environment.json", b'{"python": "3.', "environment.json is no JSON"),
        ("environment.json", b"[1, 2]", "environment.json holds no table"),
        ("environment.json", b"[" * 100_000, "environment.json is no JSON"),
        ("summary.json", b"\xff\xfe", "summary.json is no JSON"),
        ("metrics.csv", b"round_number,accuracy\n1,0.5\n2,ha", "metrics.csv cannot be read beyond row 1"),
        ("metrics.csv", b"round_number,accuracy\n1,0.5\n2", "metrics.csv cannot be read beyond row 1"),
        ("metrics.csv", b"round_number,accuracy\n1,0.5\n2,0.5,7\n", "metrics.csv cannot be read beyond row 1"),
        ("metrics.csv", b"\xff\xff\xff", "metrics.csv cannot be read beyond row 0"),
    ],
)
def test_a_broken_file_costs_a_line(make_run, file, content, said):
    folder = make_run()
    (folder / file).write_bytes(content)
    run = read_run("mine", folder)
    assert len(run.problems) == 1
    assert run.problems[0].startswith("mine: ") and said in run.problems[0]
    assert "\n" not in run.problems[0]
    assert len(run.rounds) == (3 if file != "metrics.csv" else 1 if "row 1" in said else 0)


def test_a_folder_that_has_just_been_made_is_a_run_without_rounds(make_run):
    folder = make_run()
    for name in ("metrics.csv", "summary.json", "events.jsonl", "environment.json"):
        (folder / name).unlink()
    run = read_run("run", folder)
    assert run.rounds == () and run.status == "unfinished"
    assert [problem.split(": ")[1] for problem in run.problems] == ["environment.json", "metrics.csv is missing"]


def test_a_run_that_was_killed_is_unfinished(stored):
    assert stored(status="").status == "unfinished"


def test_a_run_that_goes_on_is_not_what_its_earlier_summary_says(make_run):
    folder = make_run(status="interrupted")
    assert read_run("run", folder).status == "interrupted"
    write_events(folder, [STARTED])
    assert read_run("run", folder).status == "unfinished"


@pytest.mark.parametrize(
    "event", [1, [], {"event": 5}, {"event": "started"}, {**STARTED, "rounds": "many"}, {"event": "ended"}]
)
def test_events_of_another_make_are_passed_over(make_run, event):
    folder = make_run(status="")
    write_events(folder, [event, {"time": 9.0, "event": "ended", "status": "failed", "reason": ""}])
    assert read_run("run", folder).status == "failed"


def test_reasons_are_counted(stored):
    refused = {"event": "refused", "round": 1, "attempt": 1, "node": 3, "partition": 2, "reason": "not-finite: fc1"}
    run = stored(events=[refused, refused, {"event": "late", "round": 1, "attempt": 1}])
    assert run.log.wrong == {("refused", "not-finite: fc1"): 2, ("late", ""): 1}


# --- where runs are ---------------------------------------------------------------------------------------------------


def test_runs_are_found_in_a_sweep_by_their_place_in_it(make_run, tmp_path):
    make_run("sweep/runs/keep=1,seed=1")
    make_run("sweep/runs/keep=1,seed=2")
    (tmp_path / "sweep" / "sweep.toml").write_text("")
    assert list(run_folders([tmp_path / "sweep"])) == ["keep=1,seed=1", "keep=1,seed=2"]


def test_a_run_named_twice_is_shown_once_and_namesakes_are_told_apart(make_run, tmp_path):
    make_run("a/run")
    make_run("b/run")
    found = run_folders([tmp_path / "a" / "run", tmp_path / "a", tmp_path / "b" / "run"])
    assert found == {"run": tmp_path / "a" / "run", "run (2)": tmp_path / "b" / "run"}


def test_a_run_folder_holds_no_further_run(make_run):
    folder = make_run()
    make_run("run/report/copied")
    assert run_folders([folder]) == {"run": folder}


@pytest.mark.parametrize("made", [True, False])
def test_without_a_run_there_is_a_line(tmp_path, made):
    folder = tmp_path / "empty"
    if made:
        folder.mkdir()
    with pytest.raises(UsageError, match=r"empty: (it holds no run|there is no such folder)"):
        run_folders([folder])


def test_links_are_no_raw_files(make_run, tmp_path):
    folder = make_run()
    (tmp_path / "secret").write_text("secret")
    (folder / "model.safetensors").symlink_to(tmp_path / "secret")
    assert "model.safetensors" not in read_run("run", folder).files
