"""The place in the user's code, whatever code was called from there."""

from __future__ import annotations

import json

import pytest

from fedlearn.core.errors import RunFailed
from fedlearn.plugins.tracebacks import place_of, shortened


def raised(call):
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


@pytest.fixture
def mine(tmp_path):
    """Return the function of a user's file that calls what it is given."""
    names = {}
    source = "def call(function, *given):\n    return function(*given)\n"
    exec(compile(source, str(tmp_path / "mine.py"), "exec"), names)
    return names["call"]


def test_the_place_is_the_users_line_even_where_a_library_raises(mine):
    error = raised(lambda: mine(json.loads, "{"))
    assert place_of(error) == "mine.py:2"
    assert shortened(error).startswith("JSONDecodeError in mine.py:2: Expecting")


def test_an_error_of_our_own_code_names_no_place_of_a_users():
    assert place_of(ValueError("never raised")) == ""
    assert shortened(RunFailed("it ended")) == "RunFailed: it ended"


def test_an_error_that_cannot_be_written_is_its_name():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    assert shortened(Mute()) == "Mute"
