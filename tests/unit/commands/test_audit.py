"""`fedlearn audit`: claims hold, planted bugs are caught, and the exit code says so."""

import pytest

from fedlearn.cli import main
from fedlearn.privacy import audit_cases
from fedlearn.trees.as_printed import audits as printed_audits
from fedlearn.trees.classes import audits as class_audits
from fedlearn.trees.numbers import audits
from fedlearn.trees.sums import audits as sums_audits

BUG = audits.PLANTED_BUGS["planted: half the noise on the sums"]
SOUND = audits.TREE_CASES["tree, noisy sums"]


def audit() -> int:
    """Run the command on few seeded draws; return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["audit", "--draws", "4000", "--seed", "1"])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture
def only(monkeypatch):
    """Let the command audit these few cases instead of all."""

    def only(*, claims, bugs):
        for module, name, cases in (
            (audit_cases, "MECHANISM_CASES", {}), (audits, "TREE_CASES", claims), (audits, "PLANTED_BUGS", bugs),
            (class_audits, "CLASS_TREE_CASES", {}), (class_audits, "CLASS_PLANTED_BUGS", {}),
            (sums_audits, "SUMS_CASES", {}), (sums_audits, "SUMS_PLANTED_BUGS", {}),
            (printed_audits, "PRINTED_CLAIMS", {}),
        ):  # fmt: skip
            monkeypatch.setattr(module, name, cases)

    return only


def test_every_claim_stands_and_every_planted_bug_is_caught(capsys):
    assert audit() == 0
    shown = capsys.readouterr().out
    assert shown.count("not refuted") > 20
    for start in ("laplace, one number", "regression tree, path of a record", "classification, split", "as printed"):
        assert start in shown


def test_a_bug_that_is_not_caught_fails_the_command(capsys, only):
    only(claims={"sums": SOUND}, bugs={"half the noise": BUG, "nothing at all": SOUND})
    assert audit() == 1
    error = capsys.readouterr().err
    assert error.startswith("error: not as it must be: nothing at all: claimed 1, at least 0.")
    assert "half the noise" not in error


def test_a_claim_that_is_refuted_fails_the_command(capsys, only):
    only(claims={"sums": SOUND, "worse than it claims": BUG}, bugs={})
    assert audit() == 1
    assert "worse than it claims: claimed 1, at least 1." in capsys.readouterr().err


def test_draws_below_a_thousand_are_refused():
    with pytest.raises(SystemExit, match="2"):
        main(["audit", "--draws", "10"])
