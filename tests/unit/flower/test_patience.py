"""The pauses of a SuperNode, and a task's signs of life."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL
from flwr.supercore.heartbeat import HeartbeatSender

from fedlearn.flower import prompt_supernode, runtime


class Clock:
    def __init__(self):
        self.seconds, self.slept = 100.0, []

    def monotonic(self):
        return self.seconds

    def sleep(self, seconds):
        self.slept.append(round(seconds, 6))
        self.seconds += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(prompt_supernode, "time", clock)
    return clock


def test_pauses_grow_while_nothing_comes_and_are_short_again_after_a_message(clock):
    patient = prompt_supernode.Impatient()
    clock.seconds = 1e6
    for _ in range(40):
        patient.sleep(3)
    assert clock.slept[1:4] == [0.1 * 1.2, round(0.1 * 1.2**2, 6), round(0.1 * 1.2**3, 6)]
    assert clock.slept[-1] == prompt_supernode.LONGEST_IDLE_POLL
    patient.sleep(0.5)
    patient.sleep(3)
    assert clock.slept[-2:] == [prompt_supernode.BUSY_POLL, prompt_supernode.SHORTEST_IDLE_POLL]


def test_what_the_superlink_held_back_was_a_pause_already(clock):
    patient = prompt_supernode.Impatient()
    patient.sleep(3)
    for held, slept in ((0.03, 0.09), (1.0, 0.0), (0.0, 0.1728)):
        clock.seconds += held
        patient.sleep(3)
        assert clock.slept[-1] == slept


def test_a_task_that_ends_soon_gives_no_sign_of_life_and_one_that_goes_on_does(monkeypatch):
    monkeypatch.setattr(HeartbeatSender, "_run", HeartbeatSender._run)  # put back after the test
    runtime.give_signs_of_life_later()
    signs = SimpleNamespace(given=threading.Event())

    def sign():
        signs.given.set()
        return True

    short = HeartbeatSender(sign)
    short.start()
    assert short.is_running
    short.stop()
    assert not signs.given.is_set()
    monkeypatch.setattr(runtime, "FIRST_SIGN", 0.01)
    long = HeartbeatSender(sign)
    long.start()
    assert signs.given.wait(30)
    long.stop()


def test_a_task_gives_its_first_sign_of_life_long_before_flower_takes_it_for_dead():
    assert runtime.FIRST_SIGN < HEARTBEAT_DEFAULT_INTERVAL / 2  # after which a task that was taken has none left
