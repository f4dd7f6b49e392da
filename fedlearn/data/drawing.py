"""The part or node of each record, drawn by a keyed hash of its own bytes: one record more moves no other record.

A permutation of n, a rank or a quota depends on all records: with one row more, thousands of other rows would be
trained on, and no epsilon would bound what that reveals. Equal records are drawn alike, so shares are even only by
chance.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.data.data_spec import Examples

BLOCK = 1 << 16  # rows whose canonical bytes are made at once

_nothing_held_out = ContextVar("nothing held out", default=False)
_each_by_itself = ContextVar("each by itself", default=False)
_unfit_left_out = ContextVar("unfit rows left out", default=False)


def drawn(examples: Examples, *, seed: int, purpose: str) -> NDArray[np.float64]:
    """Return for each example a number in [0, 1) that depends on the example, seed and purpose alone; shape (n,).

    >>> two = Examples(np.array([[1.0, -0.0], [1.0, 0.0]]), np.array([3, 3]))
    >>> one, other = drawn(two, seed=1, purpose="part")
    >>> bool(one == other)
    True
    """
    key = blake2b(f"{seed}/{purpose}".encode(), digest_size=32).digest()
    words = bytearray()
    for start in range(0, len(examples), BLOCK):
        rows = examples.at(slice(start, start + BLOCK))
        inputs, targets = _canonical(rows.inputs), _canonical(rows.targets)
        for one, target in zip(inputs, targets, strict=True):
            words += blake2b(one.tobytes() + target.tobytes(), digest_size=8, key=key).digest()
    whole = np.frombuffer(bytes(words), "<u8") >> np.uint64(11)
    return np.asarray(whole.astype(np.float64) * 2.0**-53)


def _canonical(values: NDArray[Any]) -> NDArray[Any]:
    """Return values as rows in one order of bytes, in which -0 is 0 and there is one NaN."""
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.nan, values + 0.0).astype(values.dtype)
    rows = np.ascontiguousarray(values.reshape(len(values), -1))
    return rows if sys.byteorder == "little" else rows.byteswap()


@contextmanager
def nothing_held_out() -> Iterator[None]:
    """Let loaders hold out no row for testing, as long as the block lasts: all rows of a table are training rows."""
    before = _nothing_held_out.set(True)
    try:
        yield
    finally:
        _nothing_held_out.reset(before)


@contextmanager
def each_by_itself() -> Iterator[None]:
    """Let each record draw its part by itself where a reader holds rows out, as long as the block lasts."""
    before = _each_by_itself.set(True)
    try:
        yield
    finally:
        _each_by_itself.reset(before)


@contextmanager
def records_are_private() -> Iterator[None]:
    """Read within `each_by_itself`, and leave out each record that is not as declared, as long as the block lasts.

    An error would tell that such a record is there.
    """
    before = _unfit_left_out.set(True)
    try:
        with each_by_itself():
            yield
    finally:
        _unfit_left_out.reset(before)


def draws_by_itself() -> bool:
    """Return whether each record draws its part by itself, as within `each_by_itself`."""
    return _each_by_itself.get()


def leaves_unfit_out() -> bool:
    """Return whether a record that is not as declared is left out, as within `records_are_private`."""
    return _unfit_left_out.get()


def reading_key() -> str:
    """Return what the blocks around a reader add to the key of its entry in the cache; empty outside of all."""
    ways = {"nothing held out": _nothing_held_out, "each by itself": _each_by_itself, "unfit left out": _unfit_left_out}
    return "".join(f"\n{name}" for name, is_so in ways.items() if is_so.get())


def share_held_out(share: float) -> float:
    """Return the share of rows that is held out for testing: `share`, or 0 within `nothing_held_out`."""
    return 0.0 if _nothing_held_out.get() else share
