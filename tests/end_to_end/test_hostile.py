"""A federation of real processes under attack: the run ends with the honest nodes' reports, and memory is left.

`tests/adversary/hostile_requests.py` has the table of attacks. A stranger and the holder of one node key make requests
of each kind while a run goes on: a few in the short form, 200, or `REQUESTS`, in the other; both are `long`. A thousand
of each kind take more than half an hour on two cores.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tests.adversary.hostile_requests import KINDS, NAMES, ODD_PATHS, PARTITION, Attacker, attack
from tests.compose.federation import Federation, why_not

pytestmark = [pytest.mark.network, pytest.mark.skipif(bool(why_not()), reason=why_not())]

START = 300.0  # seconds for a federation to be up on a loaded machine
PATIENCE = 3000.0  # seconds for a run under attack
MEMORY = 2 << 30  # bytes that docker-compose.yml lets the SuperLink have
HONEST = {0, 1, 2}
REQUESTS = int(os.environ.get("REQUESTS", "200"))  # of each kind
TURNS = 10  # in which the requests of each kind are made
SETTINGS = {
    "clients": 4, "rounds.cohort": 0, "rounds.minimum_ready": 0.7, "rounds.quorum": 0.7, "rounds.max_attempts": 8,
    "rounds.selection_window": 40.0, "rounds.reporting_deadline": 30.0, "rounds.backoff": 0.5,
    "data.dataset": "digits", "model.name": "faulty:model", "training.local_epochs": 1,
}  # fmt: skip


class Memory:
    """How much memory a process and its children take, at most."""

    def __init__(self, process: psutil.Process) -> None:
        self.peak = 0
        self._process = process
        self._over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._over.wait(0.1) and self._process.is_running():
            self.peak = max(self.peak, self._process.memory_info().rss)

    def stop(self) -> int:
        self._over.set()
        return self.peak


def run_under_attack(folder, *, times: int, rounds: int, kinds=KINDS):
    """Return the run, the answers to each kind of request, and the SuperLink's largest memory."""
    federation = Federation(folder, clients=4, started=3)
    try:
        federation.up()
        stack = federation.stack
        stack.until(lambda: stack["serverapp"].is_ready("service_healthy"), "the server", START)
        memory = Memory(stack["superlink"].processes("deployment.superlink")[-1])
        starts = stack["superlink"].starts
        proxy, key = federation.address("proxy"), federation.volume("node-keys") / str(PARTITION)
        stranger, node = Attacker(proxy, "127.99.0.1"), Attacker(proxy, "127.99.0.2", key)
        run = federation.submit({**SETTINGS, "rounds.total": rounds})
        node.take_part()
        stack.until(lambda: run.has("started"), "the run", START)

        def made(who: Attacker) -> dict[str, Counter[str]]:
            mine = {name: kind for name, kind in kinds.items() if kind.has_key is (who is node)}
            ends = {name: Counter[str]() for name in mine}
            for turn in range(TURNS):  # so that each kind meets questions, of early rounds and of late ones
                for name, kind in mine.items():
                    ends[name] += attack(who, kind, range(times * turn // TURNS, times * (turn + 1) // TURNS))
            for name in mine:
                print(f"{name:45} {dict(ends[name])}", flush=True)
            return ends

        with ThreadPoolExecutor(2) as pool:
            begin = time.monotonic()
            answers = {name: ends for each in pool.map(made, (stranger, node)) for name, ends in each.items()}
            seconds = time.monotonic() - begin
        node.leave()
        committed = len([e for e in run.events if e["event"] == "committed"])
        assert stack.wait(run.job.name, PATIENCE) == 0, stack.story(40)
        assert stack["superlink"].starts == starts
        peak = memory.stop()
        print(f"{times} of each kind in {seconds:.0f} s, in {committed} of {rounds} rounds; peak {peak >> 20} MiB")
        return run, answers, peak
    finally:
        federation.stack.down()


def check(run, peak, expected: str) -> None:
    for event in (e for e in run.events if e["event"] == "committed"):
        place = {"round": event["round"], "attempt": event["attempt"]}
        assert {e["partition"] for e in run.events if e["event"] == "reported" and place.items() <= e.items()} == HONEST
    assert run.summary["status"] == "completed"
    assert run.summary["model_sha256"] == expected
    assert peak < MEMORY / 2


def check_answers(answers) -> None:
    for name, allowed in ((name, REFUSED[name]) for name in answers if name in REFUSED):
        assert set(answers[name]) <= allowed, (name, answers[name])
    assert not any(ends["left open"] for ends in answers.values())


REFUSED = {
    "a body that nobody has signed": {"401", "closed"},
    "a body of 300 MB": {"413", "closed"},
    "a forged signature": {"401", "closed"},
    "the signature of a key that was not let in": {"401", "closed"},
    "an odd path": {"403", "400", "414"},
    "headers used again": {"503", "401"},  # the time was used; it was signed too long ago
    "a call for another node": {"401"},
    "a reply in another node's name": {"403"},
    "an instruction in the server's name": {"403"},
    "a key of 900 kB": {"413", "closed"},
    "the same, and their bytes": {"403"},
    "many levels": {"400"},
    "a reply of no time": {"400"},
}


@pytest.fixture
def expected(execute, monkeypatch):
    """Return the SHA-256 of the model that the honest nodes make without the fourth, after some rounds."""

    def of(rounds: int) -> str:
        monkeypatch.setenv("FAULTS", f"raise:{PARTITION}:*")
        return execute({**SETTINGS, "rounds.total": rounds}).sha

    return of


@pytest.mark.long
def test_a_few_hostile_requests_of_each_kind_change_nothing(tmp_path, expected):
    run, answers, peak = run_under_attack(tmp_path, times=len(ODD_PATHS), rounds=3)
    check(run, peak, expected(3))
    check_answers(answers)


@pytest.mark.long
def test_hundreds_of_hostile_requests_of_each_kind_change_nothing(tmp_path, expected):
    run, answers, peak = run_under_attack(tmp_path, times=REQUESTS, rounds=10)
    check(run, peak, expected(10))
    check_answers(answers)


@pytest.mark.long
def test_what_a_node_says_of_the_names_of_others_changes_nothing(tmp_path, expected):
    run, answers, peak = run_under_attack(tmp_path, times=REQUESTS, rounds=10, kinds=NAMES)
    check(run, peak, expected(10))
    check_answers(answers)
    assert {name: ends.total() for name, ends in answers.items()} == dict.fromkeys(NAMES, REQUESTS)
