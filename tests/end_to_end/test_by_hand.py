"""Rounds that the caller makes step by step: the bytes of a run, each step once, and what cannot be."""

from __future__ import annotations

import numpy as np
import pytest

import fedlearn
from fedlearn.core.errors import SettingError, UsageError

SMALL = {"clients": 6, "cohort": 4, "data": "digits", "model": "linear", "rounds": 2, "batch_size": 50}
NOT_OF_THE_MODEL = ("selection_seconds", "training_seconds", "evaluation_seconds")


def by_hand(folder, **settings):
    return fedlearn.by_hand(**SMALL, **settings, out=str(folder / "hand"))


def test_rounds_by_hand_have_the_bytes_and_the_history_of_a_run(tmp_path):
    codec = {"compression": "drop", "keep_ratio": 0.5, "strategy": "fedadam"}
    hand = by_hand(tmp_path, **codec)
    hand.train(hand.select()[0])
    usual = fedlearn.run(**SMALL, **codec, engine="inline", progress=False, out=str(tmp_path / "run"))
    for number in (1, 2):
        cohort = hand.select()
        assert (hand.round_number, cohort) == (number, hand.select())
        first = hand.train(cohort[-1])
        updates = hand.train(cohort)
        assert updates[-1] is first
        assert [update.client for update in updates] == cohort
        state = hand.aggregate(updates)
        scores = hand.evaluate()
    assert hand.evaluate({name: 0 * array for name, array in state.items()})["accuracy"] != scores["accuracy"]
    run = hand.finish()
    assert (run.sha256, run.summary["status"]) == (usual.sha256, "completed")
    assert all(np.array_equal(state[name], array) for name, array in usual.state.items())
    assert scores["accuracy"] == usual.summary["accuracy"]
    confusions = [(each.folder / "classes.json").read_bytes() for each in (run, usual)]
    assert confusions[0] == confusions[1]
    rows, others = (each.history.drop(columns=list(NOT_OF_THE_MODEL)) for each in (run, usual))
    assert rows.equals(others)
    with pytest.raises(UsageError, match="these rounds are finished"):
        hand.select()


def test_update_shows_what_was_sent_and_masks_the_rest(tmp_path):
    hand = by_hand(tmp_path, compression="drop", keep_ratio=0.5)
    before = hand.state
    (update, *_) = hand.train(hand.select())
    assert all(array.shape == before[name].shape for name, array in update.arrays.items())
    masked = [np.ma.is_masked(array) for array in update.arrays.values()]
    assert any(masked) or update.arrays.keys() < before.keys()


def test_too_few_updates_leave_the_model_and_the_round_begins_anew(tmp_path):
    hand = by_hand(tmp_path)
    before, updates = hand.state, hand.train(hand.select())
    with pytest.raises(UsageError, match=r"2 of 4 clients reported, quorum is 4.*select and train anew"):
        hand.aggregate(updates[:2])
    assert hand.round_number == 1
    assert all(np.array_equal(before[name], array) for name, array in hand.state.items())
    with pytest.raises(UsageError, match="an update of round 1, attempt 1; round 1, attempt 2 is under way"):
        hand.aggregate(updates)
    outside = next(client for client in range(6) if client not in hand.select())
    with pytest.raises(UsageError, match=f"client {outside}: it is not in the cohort"):
        hand.train(outside)
    hand.aggregate(hand.train(hand.select()))
    run = hand.finish()
    assert run.summary["status"] == "interrupted"
    assert len(fedlearn.run(resume=run, progress=False).history) == 2


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"settings": {"secure.sums": "masked"}}, r"secure\.sums"),
        ({"engine": "ray"}, "engine = 'ray': rounds by hand"),
        ({"settings": {"rounds.schedule": "buffered"}}, r"rounds\.schedule"),
    ],
)
def test_what_shows_no_single_client_is_refused(tmp_path, settings, named):
    with pytest.raises(SettingError, match=named):
        by_hand(tmp_path, **settings)
