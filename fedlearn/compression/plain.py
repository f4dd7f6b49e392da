"""What stands in a chain where no stage does: everything is sent, values travel as they are."""

from __future__ import annotations

from collections.abc import Mapping

from fedlearn.compression.base import Payload
from fedlearn.compression.stages import Lengths, Part
from fedlearn.words.state import Array, ArraySpec, Entries, Layout, State


class Everything:
    """The sparsifier that leaves nothing out."""

    leaves_null = False
    allows_residual = False

    def parts(self, layout: Layout) -> Mapping[str, Part]:
        """Return no parts."""
        return {}

    def choose(self, arrays: State, *, seed: int) -> tuple[Mapping[str, None], Payload]:
        """Return all entries of all parameters."""
        return dict.fromkeys(sorted(arrays)), {}

    def chosen(self, payload: Payload, *, layout: Layout, seed: int) -> Mapping[str, None]:
        """Return all entries of all parameters."""
        return dict.fromkeys(sorted(layout))

    def restored(self, entries: Entries, spec: ArraySpec) -> Entries:
        """Return them."""
        return entries


class Plain:
    """The quantizer that changes nothing.

    Parameters
    ----------
    dtype
        That of the values.
    """

    rotates = False

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    def parts(self, lengths: Lengths) -> Mapping[str, Part]:
        """Return one array of values."""
        return {"": Part(self.dtype, sum(lengths))}

    def encode(self, values: Array, lengths: Lengths, *, seed: int) -> Payload:
        """Return the values."""
        return {"": values}

    def decode(self, payload: Payload, lengths: Lengths, *, seed: int) -> Array:
        """Return the values."""
        return payload[""]
