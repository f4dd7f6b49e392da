"""Imports without what their importers can do without, and what would take long."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(*modules: str) -> Iterator[None]:
    """Have these modules not be there, for whoever imports them as long as the block lasts; those imported before stay.

    >>> with without("this"):
    ...     import this
    Traceback (most recent call last):
    ModuleNotFoundError: import of this halted; None in sys.modules
    """
    absent = {name: None for name in modules if name not in sys.modules}
    sys.modules.update(absent)  # type: ignore[arg-type]  # None means that it is not there
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
