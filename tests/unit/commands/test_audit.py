"""`fedlearn audit`: claims hold, planted bugs are caught, and the exit code says so."""

import numpy as np
import pytest

from fedlearn.auditing import cases as audit_cases
from fedlearn.auditing.federated_trees import file_replays
from fedlearn.auditing.federated_trees import replays as node_replays
from fedlearn.auditing.pairs import Pair
from fedlearn.auditing.trees import classes_audits as class_audits
from fedlearn.auditing.trees import classes_replays as class_replays
from fedlearn.auditing.trees import numbers_audits, searching_replays
from fedlearn.auditing.trees import numbers_replays as number_replays
from fedlearn.auditing.trees import sums_audits as sums_audits
from fedlearn.auditing.trees import sums_replays as sums_replays
from fedlearn.cli import main
from fedlearn.privacy import geometric, secure_noise

BUG = numbers_audits.PLANTED_BUGS["planted: half the noise on the sums"]
SOUND = numbers_audits.TREE_CASES["tree, noisy sums"]


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
            (audit_cases, "MECHANISM_CASES", {}),
            (numbers_audits, "TREE_CASES", claims), (numbers_audits, "PLANTED_BUGS", bugs),
            (class_audits, "CLASS_TREE_CASES", {}), (class_audits, "CLASS_PLANTED_BUGS", {}),
            (sums_audits, "SUMS_CASES", {}), (sums_audits, "SUMS_PLANTED_BUGS", {}),
        ):  # fmt: skip
            monkeypatch.setattr(module, name, cases)

    return only


def test_every_claim_stands_and_every_planted_bug_is_caught(capsys):
    assert audit() == 0
    shown = capsys.readouterr().out
    assert shown.count("not refuted") > 20
    for start in ("laplace, one number", "regression tree, path of a record", "classification, split"):
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


@pytest.fixture
def only_replay(monkeypatch):
    """Let the command replay this alone."""

    def only_replay(**draws):
        for module in (class_replays, sums_replays, searching_replays, node_replays):
            monkeypatch.setattr(module, "REPLAYS", {})
        monkeypatch.setattr(file_replays, "FILES", {})
        monkeypatch.setattr(number_replays, "REPLAYS", draws)

    return only_replay


def exactly(*options) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["audit", "--exact", *options])
    return ended.value.code


def counted(epsilon):
    """Return what draws pairs of one count, of which a loss of 1 is claimed."""

    def draw(rng):
        return Pair(
            lambda X, y: geometric([len(y)], epsilon=epsilon, noise=secure_noise()),
            np.zeros((2, 1)), np.zeros(2), (np.zeros(1), 0.0), 1.0,
        )  # fmt: skip

    return draw


def test_replays_are_shown_with_the_largest_loss_and_the_slips_that_were_found(capsys, only_replay):
    only_replay(sound=counted(1.0))
    assert exactly("--pairs", "3") == 0
    shown = capsys.readouterr().out
    assert "sound" in shown
    assert "1.000000" in shown
    assert "1 of 1" in shown


def test_a_loss_that_passes_its_claim_fails_the_command(capsys, only_replay):
    only_replay(sound=counted(1.0), slipped=counted(1.05))
    assert exactly("--pairs", "3") == 1
    assert capsys.readouterr().err == "error: not as it must be: slipped: 1.05 of the claim in 3 pairs\n"


def test_a_slip_that_nobody_sees_fails_the_command(capsys, only_replay):
    only_replay(blind=counted(0.5))
    assert exactly("--pairs", "3") == 1
    assert "blind: 0.5 of the claim in 3 pairs, slips not seen: <lambda>" in capsys.readouterr().err


def test_a_row_that_asks_no_mechanism_fails_the_command(capsys, only_replay):
    only_replay(idle=lambda rng: Pair(lambda X, y: 1, np.zeros((2, 1)), np.zeros(2), (np.zeros(1), 0.0), 1.0))
    assert exactly("--pairs", "3") == 1
    assert "idle: 0 of the claim in 3 pairs, no mechanism was asked" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--exact", "--draws", "5000"], ["--pairs", "5"]])
def test_what_belongs_to_the_other_audit_is_refused(wrong, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["audit", *wrong])
    assert wrong[-2] in capsys.readouterr().err


@pytest.mark.long
def test_everything_can_be_replayed(capsys):
    assert exactly("--pairs", "1500") == 0
    assert "report of a node" in capsys.readouterr().out


def test_draws_below_a_thousand_are_refused():
    with pytest.raises(SystemExit, match="2"):
        main(["audit", "--draws", "10"])
