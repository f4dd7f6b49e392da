"""Functions compiled by numba, kept on the disk from one process to the next where there is a place for them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import Any

import numba

log = logging.getLogger(__name__)


def compiled(*signature: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: `numba.njit` with these options, whose machine code is kept beside the file or in the home.

    Where neither can be written to, as in a container of another user, each process compiles it anew. With a signature
    that is done where the decorator stands, not at the first call, and a full disk does no harm either.
    """
    njit: Any = numba.njit

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(*signature, cache=True, **options)(function)
        except (RuntimeError, OSError):  # numba has found no folder that can be written to, or could not write
            _say_that_nothing_is_kept()
            return njit(*signature, **options)(function)

    return decorate


def part(function: Callable[..., Any]) -> Any:
    """Have numba compile a function into those that call it; it is not kept by itself."""
    return numba.njit(function)


@cache
def _say_that_nothing_is_kept() -> None:
    log.warning("compiled code is made anew in each process: neither its folder nor the home folder can be written to; "
                "NUMBA_CACHE_DIR may name another")  # fmt: skip
