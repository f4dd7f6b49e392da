"""A SuperNode whose owner is asked takes part from the round after the answer on; the run goes on without it."""

from __future__ import annotations

import re

import pytest

from fedlearn.runs.agreements import CODE, NO, RUN, Agreements
from tests.compose.federation import Federation, why_not

pytestmark = [pytest.mark.network, pytest.mark.skipif(bool(why_not()), reason=why_not())]

PATIENCE = 300.0  # seconds on a loaded machine
ASKED = {
    "clients": 3, "rounds.cohort": 0, "rounds.total": 200, "rounds.minimum_ready": 0.6, "rounds.quorum": 0.6,
    "rounds.selection_window": 30.0, "rounds.reporting_deadline": 30.0, "data.dataset": "digits",
    "model.name": "faulty:model", "training.local_epochs": 1,
}  # fmt: skip


def test_an_owner_answers_in_mid_run_and_the_code_runs_only_by_its_hash(tmp_path):
    one = Federation(tmp_path / "net", clients=3, started=2)
    try:
        one.up()
        service = one.stack.services["client"]
        asks = one.stack.add("client", environment={**service.environment, "FEDLEARN_ASK": "/ask"})
        one.stack.until(lambda: "holds partition" in asks.read_log(), "a client that asks", PATIENCE)
        (partition,) = map(int, re.findall(r"holds partition (\d+) of", asks.read_log()))
        run = one.submit(ASKED)

        def counts():
            return [event["reported"] for event in run.events if event["event"] == "committed"]

        one.stack.until(lambda: len(counts()) >= 2, "two rounds without the one that asks", PATIENCE)
        assert set(counts()) == {2}
        kept = Agreements(one.volume("ask"))
        ((waiting, page),) = kept.waiting().items()
        assert "Model: faulty:model, 200 rounds, at most 3 clients" in page
        kept.answer(waiting, RUN)
        done = len(counts())
        one.stack.until(lambda: len(counts()) >= done + 2, "two rounds with the run agreed to alone", PATIENCE)
        assert set(counts()) == {2}  # the code is not allowed yet
        (code,) = re.findall(r"Other code: SHA-256 ([0-9a-f]{64}), to be allowed", page)
        kept.allow(code, CODE)
        one.stack.until(lambda: counts()[-1] == 3, "a round with all three", PATIENCE)
        last = len(counts())
        kept.answer(waiting, NO, why="enough")
        one.stack.until(lambda: 2 in counts()[last:], "a round after the owner has said no", PATIENCE)
        words = {e["reason"].partition(":")[0] for e in run.events
                 if e["event"] == "not-ready" and e["partition"] == partition}  # fmt: skip
        log = asks.read_log()
    finally:
        one.stack.down()
    assert words == {"not-ready"} and "said to the server 'not-ready': not-agreed" in log
