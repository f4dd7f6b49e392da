"""Signals and requests raise `Stopped`, at the right time and in the right thread."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from fedlearn.core.stopping import Stopped, interrupted_code, shielded, signals_caught, stopped_when

LONG = 60.0  # seconds, which no test waits for


@pytest.fixture
def hangup():
    before = signal.getsignal(signal.SIGHUP)
    yield signal.SIGHUP
    signal.signal(signal.SIGHUP, before)


def test_a_signal_is_a_stop_once_and_has_its_exit_code(hangup):
    signal.signal(hangup, signal.SIG_DFL)
    with signals_caught():
        with pytest.raises(Stopped, match="SIGHUP"):
            signal.raise_signal(hangup)
        signal.raise_signal(hangup)  # as `timeout` sends it twice
        assert interrupted_code() == 129
    assert signal.getsignal(hangup) is signal.SIG_DFL


def test_what_was_ignored_or_handled_at_the_start_stays_so(hangup):
    for handler in (signal.SIG_IGN, lambda *_: None):
        signal.signal(hangup, handler)
        with signals_caught():
            signal.raise_signal(hangup)
            assert signal.getsignal(hangup) is handler


def test_a_shielded_block_is_stopped_at_its_end():
    done = []
    with pytest.raises(KeyboardInterrupt), shielded():
        signal.raise_signal(signal.SIGINT)
        done.append("all")
    assert done == ["all"]


def test_a_request_wakes_the_main_thread_and_comes_again_where_it_is_swallowed(monkeypatch):
    monkeypatch.setattr("fedlearn.core.stopping.AGAIN", 0.05)
    with pytest.raises(Stopped, match="enough") as stop, stopped_when(lambda: "enough"):
        try:
            time.sleep(LONG)
        except BaseException:  # as a plugin may
            time.sleep(LONG)
    assert stop.value.is_wanted


def test_a_request_stops_another_thread():
    ended = []

    def run() -> None:
        try:
            with stopped_when(lambda: "enough"):
                while True:
                    time.sleep(0.01)
        except Stopped as stop:
            ended.append(stop.reason)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(LONG)
    assert ended == ["enough"]


def test_a_request_around_a_block_passes_the_one_within():
    with pytest.raises(Stopped, match="outer"), stopped_when(lambda: "outer"), stopped_when(lambda: ""):
        time.sleep(LONG)
