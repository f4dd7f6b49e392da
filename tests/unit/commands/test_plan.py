"""The command that says what noise a promise costs."""

from __future__ import annotations

import json

import pytest

from fedlearn.cli import main


def command(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["plan", *map(str, arguments)])
    return end.value.code


def test_the_promise_stands_above_the_ways_to_keep_it(capsys):
    assert command("--epsilon", 8, "--delta", "1e-5", "--clients", 20, "--cohort", 20) == 0
    said = capsys.readouterr().out
    assert "epsilon 8.00, delta 1e-05; add or remove one client; trusted server" in said
    assert "3.2876" in said
    assert "3.5" in said  # by Renyi divergences


def test_records_are_planned_by_steps(capsys):
    asked = ("--private", "records", "--records", 50, "--batch-size", 50, "--rounds", 3, "--steps", 10)
    assert command("--epsilon", 8, "--delta", "1e-5", *asked) == 0
    said = capsys.readouterr().out
    assert "add or remove one record; each client trusts only itself" in said
    assert "3.2876" in said, "3 rounds of 10 steps"
    assert "waits" not in said


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (("--epsilon", 0, "--delta", 1e-5), "epsilon = 0.0"),
        (("--epsilon", 1, "--delta", 1), "delta = 1.0"),
        (("--epsilon", 1, "--delta", 1e-5, "--cohort", 101), "--cohort 101: must be at most --clients 100"),
        (("--epsilon", 1, "--delta", 1e-5, "--private", "records", "--records", 9), "--batch-size 50: must be at most"),
        (("--epsilon", 1, "--delta", 1e-5, "--availability", 0), "availability 0"),
    ],
)
def test_what_cannot_be_planned_is_named(more, word, capsys):
    assert command(*more) == 2
    error = capsys.readouterr().err
    assert word in error
    assert len(error.splitlines()) == 1


@pytest.mark.slow
def test_bytes_are_those_that_the_run_sends(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    settings = ("--dataset", "digits", "--clients", 12, "--cohort", 3, "--rounds", 4, "--local-epochs", 1)
    settings = (*settings, "--compression", "drop", "--engine", "inline", "--batch-size", 50)
    assert command(*settings, "--json") == 0
    foretold = json.loads(capsys.readouterr().out)
    assert list(tmp_path.iterdir()) == [], "a plan leaves nothing behind"
    with pytest.raises(SystemExit):
        main(["simulate", *map(str, settings), "--json"])
    sent = json.loads(capsys.readouterr().out)
    for name in ("bytes_up", "bytes_down", "bytes_total", "bits_up", "bits_down"):
        assert foretold[name] == pytest.approx(sent[name], rel=0.001)


@pytest.mark.slow
def test_devices_have_seconds(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    asked = ("--dataset", "digits", "--clients", 6, "--cohort", 2, "--rounds", 1, "--local-epochs", 1)
    assert command(*asked, "--engine", "inline", "--devices", "alike") == 0
    said = capsys.readouterr().out
    assert "62006 parameters, 2 clients in each of 1 rounds" in " ".join(said.split())
    assert "slowest" in said


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (("--private", "everyone", "--epsilon", 1, "--delta", 1e-5), "choose nodes or records"),
        (("--epsilon", "much", "--delta", 1e-5), "write a number"),
        (("--baseline", "central", "--dataset", "digits"), "sends nothing"),
        (("--cohort", "many"), "--cohort many"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(more, word, capsys):
    assert command(*more) == 2
    error = capsys.readouterr().err
    assert word in error
    assert len(error.splitlines()) == 1
