"""Parameters of a test of which some are left to the long tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def some_long(values: Iterable[Any], *long: Any) -> list[Any]:
    """Return a test's parameters, and mark those that equal a value of `long` as long tests."""
    return [pytest.param(each, marks=pytest.mark.long if each in long else ()) for each in values]
