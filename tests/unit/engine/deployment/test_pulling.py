"""Parts of a message that are still on their way are asked for again, soon and as often as it takes."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from flwr.supercore.inflatable import inflatable_utils

from fedlearn.flower import pulling, runtime


def test_parts_are_asked_for_again_after_milliseconds(monkeypatch):
    for name in pulling.PULLS:
        function = getattr(inflatable_utils, name)
        monkeypatch.setattr(function, "__kwdefaults__", dict(function.__kwdefaults__))  # put back after the test
    slept = []

    class Event:
        def is_set(self):
            return False

        def set(self):
            pass

        def wait(self, seconds):
            slept.append(seconds)

    monkeypatch.setattr(inflatable_utils, "threading", SimpleNamespace(Event=Event, Lock=threading.Lock))
    tries = iter(range(1000))

    def pull(name):
        if next(tries) < 600:
            raise inflatable_utils.ObjectUnavailableError(name)
        return b"here"

    pulling.pull_impatiently()
    assert inflatable_utils.pull_objects(["a"], pull) == {"a": b"here"}
    assert len(slept) == 600
    assert slept[0] < 0.03
    assert max(slept) < 0.7


def test_all_names_that_are_needed_are_where_they_were():
    assert runtime.available() == ""


def test_a_part_that_never_comes_is_given_up_after_flowers_own_minutes(monkeypatch):
    for name in pulling.PULLS:
        function = getattr(inflatable_utils, name)
        monkeypatch.setattr(function, "__kwdefaults__", dict(function.__kwdefaults__))  # put back after the test
    seconds = iter(range(100_000))
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)))
    monkeypatch.setattr(inflatable_utils, "time", clock)
    monkeypatch.setattr(pulling, "FIRST_PULL", 0.0)
    monkeypatch.setattr(pulling, "LONGEST_PULL", 0.0)

    def pull(name):
        raise inflatable_utils.ObjectUnavailableError(name)

    pulling.pull_impatiently()
    with pytest.raises(inflatable_utils.ObjectPullError):
        inflatable_utils.pull_objects(["a"], pull)
