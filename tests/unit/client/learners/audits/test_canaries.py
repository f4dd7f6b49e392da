"""One training with canaries: the learner as it is stands, and one without noise does not."""

from __future__ import annotations

import pytest

from client.learners.audits.canaries import audited
from client.learners.audits.planted import PLANTED


@pytest.mark.parametrize("seed", [1, 2])
def test_a_sound_training_stands_and_its_canaries_are_seen(seed: int) -> None:
    result = audited(seed=seed, canaries=250, rounds=2)
    assert not result.is_refuted and result.right > 0.55 * result.guesses  # an audit that sees nothing proves nothing


def test_a_training_without_noise_is_refuted() -> None:
    result = audited(PLANTED["no noise"], canaries=250, rounds=2)
    assert result.is_refuted and result.right > 0.98 * result.guesses
