"""Doors, from the file to the node: ours let no record move another, and each planted mistake is found."""

from __future__ import annotations

import pytest

from fedlearn.auditing.nodes.doors import PLANTED, SOUND, through


@pytest.mark.parametrize("door", SOUND.values(), ids=SOUND)
def test_one_record_more_moves_no_other(door):
    assert not (found := through(door)).is_refuted, found.why


@pytest.mark.parametrize("door", PLANTED.values(), ids=PLANTED)
def test_a_door_that_lets_it_is_found(door):
    assert through(door).is_refuted
