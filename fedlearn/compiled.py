"""Functions compiled by numba, kept on the disk from one process to the next where there is a place for them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import Any

import numba

log = logging.getLogger(__name__)


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: `numba.njit` with these options, whose machine code is kept beside the file or in the home.

    Where neither can be written to, as in a container of another user, each process compiles it anew.
    """
    njit: Any = numba.njit

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:  # numba has found no folder that can be written to
            _say_that_nothing_is_kept()
            return njit(**options)(function)

    return decorate


@cache
def _say_that_nothing_is_kept() -> None:
    log.warning("compiled code is made anew in each process: neither its folder nor the home folder can be written to; "
                "NUMBA_CACHE_DIR may name another")  # fmt: skip
