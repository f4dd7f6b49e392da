"""The interface of a codec, and the law that every codec keeps.

A node calls `Codec.encode`, the server calls `decode` on the payload that arrived. The law: an entry that was sent
comes back with the value that the codec promises (exactly, for `identity` and `drop`), an entry that was not sent comes
back as null or, where the codec says so, as zero, and ``decode`` raises `Refused` on a payload that ``encode`` cannot
have made.

Bytes are those of the serialised message (`wire.bytes_of`), so masks, indices, seeds and headers all count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fedlearn.core.errors import Refused
from fedlearn.core.state import Array, Layout, State, Update, UpdateKind

Payload = Mapping[str, Array]
"""Named arrays as they travel."""


class Codec(Protocol):
    """One way to send an update.

    >>> import numpy as np
    >>> from fedlearn.compression.identity import Identity
    >>> Identity().encode({"w": np.ones(2)}, seed=1)
    {'w': array([1., 1.])}
    """

    accepts: frozenset[UpdateKind]

    @property
    def needs_change(self) -> str:
        """The stage that is meaningful for the change of the weights only; empty where the codec has no such stage."""
        ...

    @property
    def keeps_residual(self) -> bool:
        """Whether a node adds the loss of one round to its update in the next."""
        ...

    def emits(self, kind: UpdateKind) -> UpdateKind:
        """Return the kind of a decoded update, from its kind before encoding."""
        ...

    def encode(self, arrays: State, *, seed: int) -> Payload:
        """Return the payload of these arrays.

        Parameters
        ----------
        arrays
            The weights or their change, in the layout of the state.
        seed
            63 bits, unique to (run, round, node); travels beside the payload.
        """
        ...

    def decode(self, payload: Payload, *, layout: Layout, seed: int) -> Update:
        """Return the update in a payload; `seed` came with the payload.

        Raises
        ------
        Refused
            If the payload has the wrong names, lengths or dtypes.
        """
        ...


def check_names(payload: Payload, *, expected: Mapping[str, object]) -> None:
    """Raise Refused for a payload whose names are not exactly the expected names."""
    if payload.keys() != expected.keys():
        unknown = sorted(payload.keys() - expected.keys())
        missing = sorted(expected.keys() - payload.keys())
        raise Refused("wrong-names", f"unknown: {unknown or 'none'}; missing: {missing or 'none'}")


def check_dtype(name: str, array: Array, *, expected: str) -> None:
    """Raise Refused for an array of another dtype."""
    if array.dtype != expected:
        raise Refused("wrong-dtype", f"{name} has dtype {array.dtype}, expected {expected}")
