"""Planting of mistakes for the exact audit of runs: code of a node or a server is swapped, and put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

NOT_THERE = "this node is not there"  # the error of a node that is left out of a run


class Planted(NamedTuple):
    """A mistake, and the kind of run in which it is one.

    Parameters
    ----------
    name : str
        Mistake in words.
    way : str
        Name of a row of the audit (`fedlearn.commands.audited_nodes.WAYS`).
    plant : callable
        Function that returns a context manager, in which the mistake is made.
    absent : frozenset of int
        Partitions of the nodes that do not report.
    beside : str
        Name of what else is part of the mistake, on the other side (`fedlearn.plugins.tables.NODE_AUDITS`).
    """

    name: str
    way: str
    plant: Callable[[], AbstractContextManager[None]]
    absent: frozenset[int] = frozenset()
    beside: str = ""


@contextmanager
def swapped(owner: Any, **others: Any) -> Iterator[None]:
    """Let attributes of a module or class be others in the block."""
    before = {name: getattr(owner, name) for name in others}
    _put(owner, others)
    try:
        yield
    finally:
        _put(owner, before)


def _put(owner: Any, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(owner, name, value)
