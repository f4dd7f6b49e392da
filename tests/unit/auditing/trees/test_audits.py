from __future__ import annotations

import pytest

from experiments.private_trees.as_printed.audits import PRINTED_CLAIMS
from fedlearn.auditing import Verdict, audit_everything
from fedlearn.auditing.trees.classes_audits import CLASS_PLANTED_BUGS, CLASS_TREE_CASES
from fedlearn.auditing.trees.numbers_audits import PLANTED_BUGS, TREE_CASES
from fedlearn.auditing.trees.sums_audits import SUMS_CASES, SUMS_PLANTED_BUGS
from tests.marked import thinned

SOUND = TREE_CASES | CLASS_TREE_CASES | SUMS_CASES
BUGS = PLANTED_BUGS | CLASS_PLANTED_BUGS | SUMS_PLANTED_BUGS | PRINTED_CLAIMS


@pytest.mark.parametrize("name", thinned(SOUND, 2))
def test_the_auditor_does_not_refute(name):
    (result,) = audit_everything(40_000, seed=5, cases={name: SOUND[name]})
    assert result.verdict is Verdict.NOT_REFUTED, str(result)


@pytest.mark.parametrize("name", BUGS)
def test_the_auditor_refutes(name):
    (result,) = audit_everything(100_000, seed=5, cases={name: BUGS[name]})
    assert result.verdict is Verdict.REFUTED, str(result)


@pytest.mark.parametrize("name", [name for name in SOUND if "path of a record" in name])
def test_the_path_of_a_record_shows_a_good_part_of_what_a_tree_may_lose(name):
    (result,) = audit_everything(100_000, seed=6, cases={name: SOUND[name]})
    assert result.measured > 0.7 * result.claimed, str(result)


@pytest.mark.long
@pytest.mark.parametrize("name", SOUND)
def test_a_loss_of_one_point_three_times_the_claim_would_be_caught(name):
    (result,) = audit_everything(400_000, seed=6, cases={name: SOUND[name]})
    assert result.measured > (0.77 if "histograms" in name else 0.85) * result.claimed, str(result)
