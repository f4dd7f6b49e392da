"""Parameters of a test of which some are left to the long tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def some_long(values: Iterable[Any], *long: Any) -> list[Any]:
    """Return a test's parameters, and mark those that equal a value of `long` as long tests."""
    return [pytest.param(each, marks=pytest.mark.long if each in long else ()) for each in values]


def thinned(values: Iterable[Any], every: int) -> list[Any]:
    """Return a test's parameters, and leave all but the first of each `every` to the long tests.

    A tuple stands for several parameters; one that has marks of its own keeps them.
    """
    found = []
    for at, each in enumerate(values):
        if isinstance(each, type(pytest.param())):
            found.append(each)
        else:
            marks = pytest.mark.long if at % every else ()
            found.append(pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=marks))
    return found
