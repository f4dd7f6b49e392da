"""A client of decomfl keeps the history of scalars, and the server sends only the missing end: same SHA-256."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedlearn
from client.memory import NodeMemory
from client.received import received_state
from fedlearn.core.errors import Refused
from fedlearn.wire.grown import name_of
from server.features.downlink.growing_state import GrowingState
from server.selectors.selector import Selector
from tests.unit.algorithms.scalars.test_scalars import K, ran

EMPTY = 4 * K  # bytes of a round of the history


def down(run):
    """Return the bytes of each round's messages to one client."""
    events = [json.loads(line) for line in (Path(run.folder) / "events.jsonl").read_text().splitlines()]
    return [each["bytes"] / each["cohort"] for each in events if each["event"] == "configured"]


@pytest.fixture(scope="module")
def whole():
    """Runs in which clients are sent the whole history."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GrowingState, "is_asked", classmethod(lambda cls, config, strategy: False))
        return {cohort: ran(rounds=8, cohort=cohort) for cohort in (0, 1)}


def test_a_message_has_one_round_of_the_history(whole):
    run = ran(rounds=8)
    assert run.sha256 == whole[0].sha256
    sizes, before = down(run), down(whole[0])
    assert max(sizes[2:]) - min(sizes[2:]) <= 1  # a digit of a length; in rounds 1 and 2 clients keep no history
    assert np.diff(before)[1:].tolist() == [EMPTY] * 6
    assert before[-1] - sizes[-1] > 6 * EMPTY - 150  # the name of what the client keeps


def test_a_client_that_was_away_is_sent_what_it_missed(whole):
    run = ran(rounds=8, cohort=1)
    assert run.sha256 == whole[1].sha256
    events = [json.loads(line) for line in (Path(run.folder) / "events.jsonl").read_text().splitlines()]
    seen, missed, rest = {}, set(), set()
    for each, size in zip((each for each in events if each["event"] == "reported"), down(run), strict=True):
        number, kept = each["round"], K * (seen.get(each["partition"], 1) - 1)  # what it keeps of the history
        if kept:
            missed.add(number - seen[each["partition"]])
            rest.add(size - (K * (number - 1) - kept) * 4 - len(str(kept)))
        seen[each["partition"]] = number
    assert len(missed) > 1 and len(rest) == 1  # all but the rounds that were missed is the same


@pytest.mark.long
def test_masks_a_resume_and_workers_change_no_byte(whole):
    masked = ran(rounds=8, settings={"secure.sums": "masked", "secure.dropouts": 0.0})
    assert masked.sha256 == whole[0].sha256
    resumed = fedlearn.run(resume=ran(rounds=3, cohort=1), rounds=8, progress=False)
    assert resumed.sha256 == whole[1].sha256 == ran(rounds=8, cohort=1, engine="embedded", workers=2).sha256


def received(memory, state, name=None):
    """Return the state that a client makes of a message."""
    from flwr.app import RecordDict

    from fedlearn.wire.decoded_state import name_anchor

    request = type("Request", (), {"memory": memory, "content": RecordDict()})()
    if name is not None:
        name_anchor(request.content, name, None)
    return received_state._grown(request, state, "scalars")["scalars"]


def test_an_end_is_put_behind_what_the_client_keeps_and_nothing_else():
    memory, first = NodeMemory(), np.arange(3, dtype=np.float32)
    assert received(memory, {"scalars": first}).tolist() == [0, 1, 2]
    name = memory.texts[received_state.GROWN]
    assert received(memory, {"scalars": first[:1] + 9}, name).tolist() == [0, 1, 2, 9]
    assert received(memory, {"scalars": first[:1] + 9}, name).tolist() == [0, 1, 2, 9]  # the same message again
    assert memory.texts[received_state.GROWN] == name_of(np.float32([0, 1, 2, 9]))
    for wrong in ("", "3-00", name_of(first + 1), name_of(np.zeros(9, np.float32)), name_of(first[:0])):
        with pytest.raises(Refused, match="lacks-anchor"):
            received(memory, {"scalars": first}, wrong)
    with pytest.raises(Refused, match="lacks-anchor"):
        received(NodeMemory(), {"scalars": first}, name)
    assert received(memory, {"scalars": first}).tolist() == [0, 1, 2]  # the whole is always taken


class Away(Selector):
    """Draws all clients, but the last one in rounds 1, 2 and 103 only."""

    asks_all = True

    def draw(self, ready, count, at):
        return [each for each in ready.tolist() if each != 2 or at.round_number in (1, 2, 103)]


@pytest.mark.long
def test_a_client_that_was_away_for_a_hundred_rounds_comes_back_by_the_history():
    given = {"rounds.selector": f"{__name__}:Away", "evaluation.where": "none"}
    run = ran(rounds=103, settings=given)
    events = [json.loads(line) for line in (Path(run.folder) / "events.jsonl").read_text().splitlines()]
    took_part = [each["round"] for each in events if each["event"] == "reported" and each["partition"] == 2]
    sent = {each["round"]: each["bytes"] for each in events if each["event"] == "configured"}
    assert took_part == [1, 2, 103]
    one = sent[102] / 2  # a message with one round of the history
    assert sent[103] - 3 * one == pytest.approx(100 * EMPTY, abs=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GrowingState, "is_asked", classmethod(lambda cls, config, strategy: False))
        assert ran(rounds=103, settings=given).sha256 == run.sha256
    print(f"{one:.0f} bytes a message, {sent[103] - 2 * one:.0f} to the client that was away for 100 rounds")
