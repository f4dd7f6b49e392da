"""What a setting means, in the words of ``fedlearn settings``."""

from __future__ import annotations

from functools import cache

from fedlearn.config import RunConfig, to_flower
from fedlearn.config.names import described


@cache
def _known() -> frozenset[str]:
    return frozenset(to_flower(RunConfig()))


def meaning(name: str) -> str:
    """Return the description of a setting by its dotted name; empty of what is none, as a run folder may hold."""
    return described(name)[0] if name in _known() else ""
