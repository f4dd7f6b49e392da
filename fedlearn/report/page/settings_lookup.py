"""Look up the meaning of a setting, in the words of ``fedlearn settings``."""

from __future__ import annotations

from functools import cache

from fedlearn.config import RunConfig, to_flower
from fedlearn.config.names import described


@cache
def _known() -> frozenset[str]:
    return frozenset(to_flower(RunConfig()))


def meaning(name: str) -> str:
    """Return the description of a setting by its dotted name; empty for a name that is no setting."""
    return described(name)[0] if name in _known() else ""
