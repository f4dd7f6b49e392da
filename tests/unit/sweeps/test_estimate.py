"""Bytes of a run, foretold by a trial: of rounds that are written by hand, and of a real trial."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from flwr.app import RecordDict

from fedlearn import wire
from fedlearn.compression import Anchor, anchor_codec
from fedlearn.config import config_from
from fedlearn.core.errors import UsageError
from fedlearn.core.state_files import pack_state
from fedlearn.runs.folder import RunFolder
from fedlearn.sweeps.estimate import TRIED, foretell
from fedlearn.wire.decoded_state import anchor_size, name_anchor

HEAD = "round_number,attempts,cohort,uploads,bytes_down,bytes_up"
STATE = {"w": np.ones(5000, np.float32)}
MANY = {"clients": 100, "rounds.cohort": 40, "rounds.total": 10, "data.dataset": "digits"}


@pytest.fixture
def trial_of():
    """Return what takes the place of a run: it notes its settings, and leaves the rounds that are given."""
    seen = []

    def trial_of(rows, head=HEAD, **summary):
        def run(config):
            seen.append(config)
            folder = RunFolder(Path(config.out))
            folder.make()
            (folder.path / "metrics.csv").write_text("\n".join([head, *rows]) + "\n")
            about = {"model_sha256": "ab", "dataset": "digits", "parameters": 100}
            (folder.path / "summary.json").write_text(json.dumps(about | summary))
            (folder.path / "model.safetensors").write_bytes(pack_state(STATE))
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
    with pytest.raises(UsageError, match="state grows"):
        foretell(config_from(MANY), trial_of(["1,1,8,8,8000,800"], parameters=0))


def test_masked_sums_are_tried_with_the_whole_cohort(trial_of):
    trial = trial_of(["1,1,40,40,8000,800", "2,1,40,40,8000,800"])
    foretell(config_from({**MANY, "secure.sums": "masked"}), trial)
    assert trial.seen[0].rounds.cohort == 40


@pytest.mark.parametrize(
    ("cohort", "anchors"),
    [(100, 100 * 3), (40, 100 * (2 * (1 - 0.6**4) + 1 - 0.6**2)), (1, 100 * (2 * (1 - 0.99**4) + 1 - 0.99**2))],
)
def test_an_anchor_is_sent_once_in_its_life_to_each_node_that_is_in_a_round_of_it(trial_of, cohort, anchors):
    settings = {"rounds.cohort": cohort, "compression.downlink": "anchor:4:4,eden", "compression.send": "update"}
    size, tried = anchor_size(Anchor(4, 4), STATE), min(cohort, TRIED)
    rows = [f"1,1,{tried},{tried},{tried * (1000 + size)},800,{tried}", f"2,1,{tried},{tried},{tried * 1000},800,0"]
    found = foretell(config_from(MANY | settings), trial_of(rows, head=f"{HEAD},anchors_sent"))
    assert found.bytes_down == pytest.approx(cohort * 10 * 1000 + anchors * size)
    assert found.message_down == pytest.approx(found.bytes_down / (cohort * 10))


def test_a_state_that_all_nodes_follow_is_sent_once_to_each_and_is_tried_with_all_of_them(trial_of):
    settings = {"rounds.cohort": 0, "compression.downlink": "ef21,top-k:0.1", "compression.send": "update"}
    size = anchor_size(Anchor(1, 32), STATE)
    rows = [f"1,1,100,100,{100 * (1000 + size)},1,100", "2,1,100,100,100000,1,0"]
    trial = trial_of(rows, head=f"{HEAD},anchors_sent")
    assert foretell(config_from(MANY | settings), trial).bytes_down == pytest.approx(100 * (10 * 1000 + size))
    assert trial.seen[0].rounds.cohort == 100


def test_a_schedule_without_rounds_sends_an_anchor_to_all_that_are_at_work(trial_of):
    settings = {"compression.downlink": "anchor:5:4,eden", "compression.send": "update", "rounds.schedule": "buffered"}
    size = anchor_size(Anchor(5, 4), STATE)
    rows = [
        f"1,1,50,10,{50 * (1000 + size)},100,50",
        f"2,1,10,10,{10 * 1000 + 4 * size},100,4",
        "3,1,10,10,10000,100,0",
    ]
    found = foretell(config_from(MANY | settings), trial_of(rows, head=f"{HEAD},anchors_sent"))
    anchors = 100 * ((1 - 0.5 * 0.9**4) + (1 - 0.9**5))
    assert found.bytes_down == pytest.approx(50 * 1000 + 9 * 10_000 + anchors * size)


def test_the_size_of_an_anchor_is_what_it_adds_to_a_message():
    content = RecordDict()
    name_anchor(content, "1-ab", None)
    without = wire.bytes_of(content)
    name_anchor(content, "1-ab", wire.pack_arrays(anchor_codec(Anchor(4, 2)).encode(STATE, seed=5)))
    assert wire.bytes_of(content) - without == anchor_size(Anchor(4, 2), STATE)
