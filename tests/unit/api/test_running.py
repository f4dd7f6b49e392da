"""What `fedlearn.run` does before a run, in which order."""

import pytest

import fedlearn
from fedlearn.api import isolated_call, running
from fedlearn.core.errors import UsageError


def test_the_process_of_workers_is_begun_by_one_thread_at_a_time(monkeypatch):
    calls = []
    monkeypatch.setattr(running, "begin_early", lambda: calls.append(isolated_call._calls))
    with pytest.raises(UsageError):
        fedlearn.run(clients=0, data="digits")
    assert calls == [1]  # within the lock: two threads that begin at once end each other's process
