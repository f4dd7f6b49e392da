"""Functions compiled by numba, kept on the disk from one process to the next where there is a place for them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numba

from fedlearn.imports import without

log = logging.getLogger(__name__)

BLAS = "scipy.linalg.cython_blas"


def _import_without_scipy() -> None:
    """Import what numba imports before it compiles, without scipy.linalg, which takes a fifth of a second.

    Numba looks there for a BLAS. A function that multiplies matrices imports it when it is compiled.
    """
    if "numba.np.arraymath" in sys.modules or BLAS in sys.modules:
        return
    with without(BLAS):
        from numba.np import arraymath
    arraymath._HAVE_BLAS = find_spec("scipy") is not None


_import_without_scipy()


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
