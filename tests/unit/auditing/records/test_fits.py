"""Draws of many fits: ours are independent, and each planted mistake is found."""

from __future__ import annotations

import pytest

from fedlearn.auditing.records.fits import PLANTED, SOUND, drawn_by


@pytest.mark.parametrize("drawing", SOUND.values(), ids=SOUND)
def test_our_draws_are_independent(drawing):
    assert not drawn_by(drawing).is_refuted


@pytest.mark.parametrize("drawing", PLANTED.values(), ids=PLANTED)
def test_draws_that_are_not_are_found(drawing):
    assert drawn_by(drawing).is_refuted
