"""`fedlearn audit`: claims hold, planted bugs are caught, and the exit code says so."""

import pytest

from fedlearn.cli import main
from fedlearn.trees import audits


def audit() -> int:
    """Run the command on few seeded draws; return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["audit", "--draws", "4000", "--seed", "1"])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_every_claim_stands_and_every_planted_bug_is_caught(capsys):
    assert audit() == 0
    assert "not refuted" in capsys.readouterr().out


def test_a_bug_that_is_not_caught_fails_the_command(capsys, monkeypatch):
    sound = next(iter(audits.TREE_CASES.values()))
    monkeypatch.setattr(audits, "PLANTED_BUGS", {"planted: nothing at all": sound})
    assert audit() == 1
    assert "planted: nothing at all" in capsys.readouterr().err
