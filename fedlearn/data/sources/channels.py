"""Where the channels of pictures stand: it is said, or follows from the library and the length of the axes.

| an example (a, b, c) | channels |
|---|---|
| a tensor | first; asked for where a is longer than 4 and c is 1, 3 or 4 |
| an array, c up to 4 | last |
| an array, c longer than 4, a up to 4 | asked for |
| an array, a and c longer than 4 | a module gets the axes as they are, and a line says so |
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from fedlearn.data.sources.as_arrays import Wrong

MOST_CHANNELS = 4
OF_PICTURES = (1, 3, 4)
HOW = "by from_arrays or data.options"
OF_TENSORS = "say from_torch(data, channels='last') or channels='first'; from_hf and from_arrays take it, too"

Channels = Literal["last", "first"]


def channels_of(X: Any, name: str, wrong: Wrong, *, are_tensors: bool) -> Channels | None:
    """Return where the channels of inputs (n, a, b, c) stand; None for inputs of other shapes.

    Raises
    ------
    UsageError
        If the channels may stand first or last.
    """
    sides = _sides(X)
    if len(sides) != 3:
        return None
    first, last = sides[0] <= MOST_CHANNELS, sides[2] <= MOST_CHANNELS
    if are_tensors and not first and sides[2] in OF_PICTURES:
        raise wrong(f"tensors of shape {sides} may have their channels first or last: {OF_TENSORS}")
    if not are_tensors and first and not last:
        found = f"{name} has shape {(len(X), *sides)}"
        raise wrong(f"{found}: if that is (n, channels, height, width), say channels='first' or 'last', {HOW}")
    return "last" if last and not are_tensors else "first"


def said_to_stay(X: Any, name: str) -> str:
    """Return a line if axes of arrays are all too long for channels, so that a module gets them as they are."""
    sides = _sides(X)
    if len(sides) != 3 or min(sides[0], sides[2]) <= MOST_CHANNELS:
        return ""
    axes = ", ".join(map(str, sides))
    return f"a module gets {name} as it is, (B, {axes}): if its last axis has channels, say channels='last', {HOW}"


def _sides(X: Any) -> tuple[int, ...]:
    return np.shape(X[:1] if isinstance(X, list) else X)[1:]
