"""The exact audit of DP-SGD: the learner as it is stands, and each planted mistake is found."""

from __future__ import annotations

import pytest

from client.learners.dp_sgd import DPSGD
from fedlearn.auditing.records.neighbors import replayed
from fedlearn.auditing.records.planted import PLANTED

PAIRS = 40


def test_the_learner_as_it_is_uses_up_its_claim_and_no_more() -> None:
    result = replayed("dp-sgd", DPSGD, pairs=PAIRS)
    assert not result.is_refuted and result.largest == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("mistake", PLANTED)
def test_each_planted_mistake_is_found(mistake: str) -> None:
    result = replayed(mistake, PLANTED[mistake], pairs=PAIRS)
    assert result.is_refuted, result
