"""Engines that stay from run to run."""

from __future__ import annotations

import os
from contextlib import contextmanager

import pytest

from fedlearn.engine import session as sessions
from fedlearn.engine.base import Engine
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
