"""What a node of a private model sends, on the tape."""

from __future__ import annotations

import pytest

from client.learners.tree import TreeLearner
from fedlearn.models import MODELS
from fedlearn.models.replays import REPLAYS
from fedlearn.privacy.replay import replay


def test_every_private_model_is_replayed():
    assert [f"{name}, report of a node" for name, row in MODELS.items() if row.is_private] == list(REPLAYS)


@pytest.mark.parametrize("name", REPLAYS)
def test_no_report_passes_the_claim(name):
    result = replay(name, REPLAYS[name], pairs=12, seed=1)
    assert not result.is_refuted, str(result)


@pytest.mark.long
@pytest.mark.parametrize("name", REPLAYS)
def test_no_report_passes_the_claim_in_many_pairs_and_every_slip_is_seen(name):
    result = replay(name, REPLAYS[name], pairs=2000, seed=2)
    assert not result.is_refuted, str(result)
    assert not result.missed, str(result)


@pytest.mark.parametrize("what", ["num_examples", "metrics"])
def test_a_report_that_says_how_many_records_there_are_is_found(what, monkeypatch):
    fit = TreeLearner.fit

    def telling(self, state, task):
        told = fit(self, state, task)
        values = {"num_examples": len(task.indices), "metrics": {"loss": float(len(task.indices))}}
        return type(told)(told.arrays, **{"num_examples": 1, "metrics": told.metrics} | {what: values[what]})

    monkeypatch.setattr(TreeLearner, "fit", telling)
    result = replay("dp-forest", REPLAYS["dp-forest, report of a node"], pairs=20, seed=3)
    assert result.why == "the answers are the same, and what is published differs"
