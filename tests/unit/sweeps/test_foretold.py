"""Bytes of a run, foretold by a trial: of rounds that are written by hand, and of a real trial."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedlearn.config import config_from
from fedlearn.runs.folder import RunFolder
from fedlearn.sweeps.foretold import TRIED, foretell
from fedlearn.words.errors import UsageError

HEAD = "round_number,attempts,cohort,uploads,bytes_down,bytes_up"
MANY = {"clients": 100, "rounds.cohort": 40, "rounds.total": 10, "data.dataset": "digits"}


@pytest.fixture
def trial_of():
    """Return what takes the place of a run: it notes its settings, and leaves the rounds that are given."""
    seen = []

    def trial_of(rows, **summary):
        def run(config):
            seen.append(config)
            folder = RunFolder(Path(config.out))
            folder.make()
            (folder.path / "metrics.csv").write_text("\n".join([HEAD, *rows]) + "\n")
            about = {"model_sha256": "ab", "dataset": "digits", "parameters": 100}
            (folder.path / "summary.json").write_text(json.dumps(about | summary))
            return folder

        run.seen = seen
        return run

    return trial_of


def test_each_round_costs_as_many_messages_as_it_has_nodes(trial_of):
    trial = trial_of(["1,1,8,8,8000,800", "2,1,8,8,16000,1600"])
    found = foretell(config_from(MANY), trial)
    assert (found.message_down, found.message_up) == (2000, 200)
    assert found.bytes_down == 40 * (1000 + 9 * 2000)
    assert found.bytes_up == 40 * (100 + 9 * 200)
    assert (found.bits_down, found.bits_up) == (160, 16)
    (tried,) = trial.seen
    assert (tried.rounds.total, tried.rounds.cohort, tried.evaluation.where) == (2, TRIED, "none")
    assert tried.clients == 100


def test_an_attempt_that_was_made_again_does_not_count_twice(trial_of):
    found = foretell(config_from(MANY), trial_of(["1,1,8,8,8000,800", "2,2,8,16,16000,1600"]))
    assert (found.message_down, found.message_up) == (1000, 100)


def test_evaluations_on_nodes_are_bytes_down_of_the_rounds_that_have_them(trial_of):
    rows = ["1,1,8,8,8000,800", "2,1,8,8,8000,800", "3,1,8,8,12000,800"]
    asked = {**MANY, "evaluation.where": "nodes", "evaluation.every": 4}
    found = foretell(config_from(asked), trial_of(rows))
    assert found.bytes_down == 40 * 1000 * 10 + 40 * 500 * 3, "after rounds 4, 8, and 10"


def test_one_round_is_foretold_by_one_round(trial_of):
    found = foretell(config_from({**MANY, "rounds.total": 1}), trial_of(["1,1,8,8,8000,800"]))
    assert (found.bytes_down, found.bytes_up) == (40_000, 4_000)


def test_what_cannot_be_foretold_is_said(trial_of):
    with pytest.raises(UsageError, match="baseline of a federation sends nothing"):
        foretell(config_from({**MANY, "training.baseline": "central"}), trial_of([]))
    with pytest.raises(UsageError, match="has the anchor"):
        foretell(
            config_from({**MANY, "compression.downlink": "anchor:5:4,eden", "compression.send": "update"}), trial_of([])
        )
    with pytest.raises(UsageError, match="state grows"):
        foretell(config_from(MANY), trial_of(["1,1,8,8,8000,800"], parameters=0))


def test_masked_sums_are_tried_with_the_whole_cohort(trial_of):
    trial = trial_of(["1,1,40,40,8000,800", "2,1,40,40,8000,800"])
    foretell(config_from({**MANY, "secure.sums": "masked"}), trial)
    assert trial.seen[0].rounds.cohort == 40
