"""Bytes that have crossed between server and nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class Traffic:
    """Counts of the bytes of messages since the last commit; messages of abandoned attempts count.

    Parameters
    ----------
    down, up
        Instructions, and reports; evaluations on nodes count as down.
    uploads
        How many reports `up` is the size of.
    protocol
        Ready queries and answers, notices, what nodes answer to evaluations.
    """

    down: int = 0
    up: int = 0
    uploads: int = 0
    protocol: int = 0

    def add_reports(self, sizes: Iterable[int]) -> None:
        """Count reports by their sizes; a size of zero stands for none."""
        for size in sizes:
            self.up += size
            self.uploads += size > 0
