"""One training with canaries: the learner as it is stands, and what lets canaries be seen does not."""

from __future__ import annotations

import pytest

from fedlearn.auditing.records.canaries import audited
from fedlearn.auditing.records.planted import PLANTED

FOUND = ("half the noise", "no noise", "clip forgotten for one parameter", "the sum clipped, no example")


@pytest.mark.parametrize("seed", [1, 2])
def test_a_sound_training_stands_and_its_canaries_are_seen(seed: int) -> None:
    result = audited(seed=seed)
    assert not result.is_refuted and result.measured > 1.0  # an audit that sees nothing proves nothing
    assert result.by_guesses.right > 0.6 * result.by_guesses.guesses


@pytest.mark.parametrize("mistake", FOUND)
def test_one_training_is_enough_to_refute_what_lets_canaries_be_seen(mistake: str) -> None:
    result = audited(PLANTED[mistake], seed=1)
    assert result.is_refuted, str(result)


def test_without_noise_guesses_alone_refute_the_claim() -> None:
    result = audited(PLANTED["no noise"], canaries=1000, rounds=2)
    assert result.by_guesses.is_refuted and result.by_guesses.right == result.by_guesses.guesses


def test_little_power_is_said() -> None:
    few, many = audited(canaries=50, rounds=1), audited(canaries=1000, rounds=1)
    assert few.finds < 0.3 < 0.5 < many.finds < 1
