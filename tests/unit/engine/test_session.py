"""Engines that stay from run to run."""

from __future__ import annotations

import os
from contextlib import contextmanager

import pytest

from fedlearn.api import running
from fedlearn.core.errors import UsageError
from fedlearn.engine import session as sessions
from fedlearn.engine.engine_type import Engine
from fedlearn.engine.session import engine_of, session


@pytest.fixture
def seen(monkeypatch):
    """Note when an engine is begun and ended, in place of a real one."""
    said: list[str] = []

    @contextmanager
    def warm():
        said.append("begun")
        yield lambda config: said.append("run")
        said.append("ended")

    monkeypatch.setattr(sessions, "begin_early", lambda: None)
    monkeypatch.setattr(sessions, "load_engine", lambda name: Engine(lambda config: said.append("cold"), warm=warm))
    return said


def test_engine_is_begun_with_the_first_run_and_ends_with_the_block(seen):
    with session():
        assert seen == []
        engine_of("x").run(None)
        engine_of("x").run(None)
        assert seen == ["begun", "run", "run"]
    assert seen[-1] == "ended"
    engine_of("x").run(None)
    assert seen[-1] == "cold"


def test_session_within_a_session_is_the_same(seen):
    with session():
        with session():
            engine_of("x").run(None)
        engine_of("x").run(None)
        assert seen == ["begun", "run", "run"]


def test_session_ends_with_an_error(seen):
    with pytest.raises(ValueError, match="mine"), session():
        engine_of("x").run(None)
        raise ValueError("mine")
    engine_of("x").run(None)
    assert seen[-1] == "cold"


def test_a_forked_child_has_no_session(seen):
    with session():
        child = os.fork()
        if not child:
            engine_of("x").run(None)
            os._exit(0 if seen == ["cold"] else 1)
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("given", "begins"),
    [({}, True), ({"engine": "inline"}, False), ({"settings": {"engine.name": "inline"}}, False)],
    ids=["the usual engine", "flag", "setting"],
)
def test_the_workers_process_is_begun_before_the_settings_are_read_unless_another_engine_is_named(
    monkeypatch, given, begins
):
    said: list[str] = []
    monkeypatch.setattr(running, "begin_early", lambda: said.append("begun"))
    with pytest.raises(UsageError, match="clients"):
        running.run(clients=-1, **given)
    assert said == ["begun"] * begins


def test_a_session_of_an_engine_that_forks_no_worker_ends_their_process(monkeypatch, seen):
    monkeypatch.setattr(sessions, "begin_early", lambda: seen.append("process"))
    monkeypatch.setattr(sessions, "end_unused", lambda: seen.append("no process"))
    with session():
        engine_of("x").run(None)
    assert seen == ["process", "begun", "no process", "run", "ended"]
