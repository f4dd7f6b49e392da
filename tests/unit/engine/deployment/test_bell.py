"""A SuperNode that has a message rings, and its executor asks for the task at once."""

from __future__ import annotations

import os
import select
import time

import pytest

from fedlearn.engine.deployment import executor as executors
from fedlearn.engine.deployment.executor import Executor
from fedlearn.flower import prompt_supernode
from fedlearn.flower.runtime import Endpoint


@pytest.fixture
def bell():
    heard, rung = os.pipe()
    yield heard, rung
    os.close(heard)
    os.close(rung)


def test_a_message_rings_and_none_does_not(bell):
    heard, rung = bell
    came = iter([None, 7, None])
    pull = prompt_supernode._ringing(lambda **_: next(came), rung)
    assert [pull(), pull(), pull()] == [None, 7, None]
    assert os.read(heard, 99) == b"!"


def test_it_rings_once_the_task_is_there(bell):
    heard, rung = bell
    rings = lambda: bool(select.select([heard], [], [], 0)[0])  # noqa: E731
    pull = prompt_supernode._ringing(lambda **_: rings() or 7, rung)
    assert pull() == 7
    assert rings()


def test_nobody_who_listens_stops_no_supernode(bell):
    _, rung = bell
    pull = prompt_supernode._ringing(lambda **_: 7, rung)
    assert {pull() for _ in range(100_000)} == {7}  # more than a pipe holds


class Asked(Executor):
    """An executor whose tasks end at once, and which is stopped when it has asked often enough."""

    def __init__(self, bell, answers):
        super().__init__(Endpoint("127.0.0.1:1", insecure=True), server=False, bell=bell)
        self.answers = iter(answers)
        self.started = []

    def _acquire(self):
        answer = next(self.answers, None)
        if answer is None:
            raise KeyboardInterrupt
        return answer() if callable(answer) else answer

    def _start(self, token):
        self.started.append(token)
        return Ended()

    def go_on(self):
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            self.run()
        self._source.close()
        return time.monotonic() - begin


class Ended:
    pid = 1

    def read_reports(self, learned):
        return False

    def end_if_late(self):
        pass


def test_the_executor_asks_when_it_rings_and_seldom_by_itself(bell, monkeypatch):
    heard, rung = bell
    monkeypatch.setattr(executors, "UNRUNG_POLL", 60.0)

    def none_but_it_rings():
        os.write(rung, b"!")
        return ""

    assert Asked(heard, [none_but_it_rings]).go_on() < 30


def test_it_asks_once_for_each_message_that_rang(bell, monkeypatch):
    heard, rung = bell
    monkeypatch.setattr(executors, "UNRUNG_POLL", 0.3)

    def one_and_two_more():
        os.write(rung, b"!!")
        return "first"

    executor = Asked(heard, [one_and_two_more, "second", "third"])  # and a last question, by the clock
    assert executor.go_on() >= 0.3
    assert executor.started == ["first", "second", "third"]


def test_one_that_did_not_ring_is_asked_for_all_the_same(bell, monkeypatch):
    heard, _ = bell
    monkeypatch.setattr(executors, "UNRUNG_POLL", 0.1)
    executor = Asked(heard, ["", "unheard"])
    assert executor.go_on() < 30
    assert executor.started == ["unheard"]


def test_a_supernode_that_is_away_is_asked_after_as_often_as_without_a_bell(bell):
    executor = Asked(bell[0], [])
    assert executor._pause() == executors.UNRUNG_POLL
    executor._away = True
    assert executor._pause() == executors.LONGEST_POLL
    executor._source.close()
