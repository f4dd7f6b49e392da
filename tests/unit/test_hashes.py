"""The tool that shows same bytes: its rows are runs, and it says which hash is not as it was."""

import json

import pytest
from typer import Typer
from typer.testing import CliRunner

from fedlearn.cli import main
from fedlearn.commands import simulate
from tests import hashes
from tests.hashes import ROWS, RunEnded


@pytest.fixture
def run(monkeypatch):
    """Run the tool with given hashes; a row without one fails."""
    app = Typer()
    app.command()(hashes.main)

    def run(told, *arguments):
        def sha_of(row):
            if row.name not in told:
                raise RunEnded("why")
            return told[row.name]

        monkeypatch.setattr(hashes, "sha_of", sha_of)
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run


ALL = {row.name: row.like or row.name for row in ROWS}


def test_there_are_twenty_rows_and_those_that_must_be_alike_come_after_their_pattern():
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names) >= 20
    assert all(row.like in names[: names.index(row.name)] for row in ROWS if row.like)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_is_a_run_that_the_command_accepts(row, monkeypatch, tmp_path):
    monkeypatch.setattr(simulate, "_run", lambda *_, **__: None)
    with pytest.raises(SystemExit) as end:
        main(["simulate", *row.arguments, "--out", str(tmp_path / "run")])
    assert end.value.code == 0


def test_same_hashes_end_with_0(run, tmp_path):
    assert run(ALL, "--out", tmp_path / "before.json").exit_code == 0
    assert json.loads((tmp_path / "before.json").read_text()) == ALL
    done = run(ALL, "--against", tmp_path / "before.json")
    assert (done.exit_code, done.stdout.count(" same\n")) == (0, len(ROWS))


def test_hash_that_is_another_than_before_is_named(run, tmp_path):
    (tmp_path / "before.json").write_text(json.dumps(ALL))
    done = run({**ALL, "median": "other"}, "--against", tmp_path / "before.json")
    assert done.exit_code == 1
    assert "DIFFERS from before" in done.stdout and done.stdout.endswith("not as they must be: median\n")


def test_engines_that_differ_are_seen_without_anything_to_compare_with(run):
    done = run({**ALL, "ray: drop 0.1": "other"})
    assert done.exit_code == 1
    assert "DIFFERS from drop 0.1" in done.stdout


def test_run_that_fails_is_no_hash(run, tmp_path):
    done = run({}, "--only", "median", "--out", tmp_path / "after.json")
    assert (done.exit_code, "FAILED: why" in done.stdout) == (1, True)
    assert json.loads((tmp_path / "after.json").read_text()) == {}


def test_part_that_no_row_has_is_no_success(run):
    assert run(ALL, "--only", "nothing").exit_code == 1
