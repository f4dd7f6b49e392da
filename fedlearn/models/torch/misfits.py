"""Why a step of a user's module fails, in our words where shapes do not fit, else as its own code says it."""

from __future__ import annotations

import re

from fedlearn.core.errors import said
from fedlearn.plugins.tracebacks import place_of, shortened

LINEAR = re.compile(r"mat1 and mat2 shapes cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)")
CHANNELS = re.compile(r"expected input.* to have (\d+) channels, but got (\d+) channels")


def why_it_fails(error: Exception) -> str:
    """Return why a step fails.

    >>> why_it_fails(RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x4 and 7x3)"))
    'a linear layer takes 7 numbers and gets 4: write in_features=4, or flatten or pool before it'
    """
    place = place_of(error)
    where = f"{place}: " if place else ""
    if found := LINEAR.search(str(error)):
        wanted, given = found[2], found[1]
        return (
            f"{where}a linear layer takes {wanted} numbers and gets {given}: write in_features={given}, or flatten or "
            "pool before it"
        )
    if found := CHANNELS.search(str(error)):
        return f"{where}a convolution takes {found[1]} channels and gets {found[2]}: write in_channels={found[2]}"
    return said(shortened(error))
