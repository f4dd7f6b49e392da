"""A SuperNode that has a message rings, and its executor asks for the task at once."""

from __future__ import annotations

import os
import time

import pytest

from fedlearn.engine.deployment import executor as executors
from fedlearn.engine.deployment.executor import Executor
from fedlearn.flower import runtime
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
    pull = runtime._ringing(lambda **_: next(came), rung)
    assert [pull(), pull(), pull()] == [None, 7, None]
    assert os.read(heard, 99) == b"!"


def test_nobody_who_listens_stops_no_supernode(bell):
    _, rung = bell
    pull = runtime._ringing(lambda **_: 7, rung)
    assert {pull() for _ in range(100_000)} == {7}  # more than a pipe holds


def test_the_executor_asks_when_it_rings_and_seldom_by_itself(bell, monkeypatch):
    heard, rung = bell
    executor = Executor(Endpoint("127.0.0.1:1", insecure=True), server=False, bell=heard)
    asked = []

    def acquire():
        asked.append(time.monotonic())
        if len(asked) == 2:
            raise KeyboardInterrupt
        os.write(rung, b"!!!")
        return ""

    monkeypatch.setattr(executors, "LONGEST_POLL", 60.0)
    monkeypatch.setattr(executor._source, "acquire", acquire)
    with pytest.raises(KeyboardInterrupt):
        executor.run()
    assert asked[1] - asked[0] < 30
    executor.stop()
