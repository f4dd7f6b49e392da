"""The command that says what noise a promise costs."""

from __future__ import annotations

import pytest

from fedlearn.cli import main


def command(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["plan", *map(str, arguments)])
    return end.value.code


def test_the_promise_stands_above_the_ways_to_keep_it(capsys):
    assert command("--epsilon", 8, "--delta", "1e-5", "--clients", 20, "--cohort", 20) == 0
    said = capsys.readouterr().out
    assert "epsilon 8.00, delta 1e-05; add or remove one node; trusted server" in said
    assert "3.2876" in said
    assert "3.5" in said  # by Renyi divergences


def test_records_are_planned_by_steps(capsys):
    asked = ("--private", "records", "--records", 50, "--batch-size", 50, "--rounds", 3, "--steps", 10)
    assert command("--epsilon", 8, "--delta", "1e-5", *asked) == 0
    said = capsys.readouterr().out
    assert "add or remove one record; each node trusts itself alone" in said
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
