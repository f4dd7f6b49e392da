"""The kinds of stages in a codec chain, and the methods of each; `chain.py` runs them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import ClassVar, NamedTuple, Protocol, Self

from fedlearn.compression.base import Payload
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.words.state import Array, ArraySpec, Entries, Layout, Positions, State


class Role(IntEnum):
    """What a stage does in a chain. Stages stand in this order, at most one of each."""

    RESIDUAL = 0
    SPARSIFIER = 1
    TRANSFORM = 2
    QUANTIZER = 3
    ENTROPY = 4

    def __str__(self) -> str:
        """Return the word that errors use."""
        return self.name.lower()


class Part(NamedTuple):
    """One array of a payload, as the decoder expects it.

    Parameters
    ----------
    length
        Number of entries; if not `exact`, the largest that there can be.
    """

    dtype: str
    length: int
    exact: bool = True


Lengths = Sequence[int]
"""How a vector is cut into segments: the values of one parameter, or one block of a transform. All above zero."""


class Stage(Protocol):
    """One link of a chain, as the setting names it; each is one of the kinds below, too.

    Attributes
    ----------
    needs_change
        Whether it makes sense for the change of the weights only, as it is biased or takes what is not sent for zero.
    """

    role: ClassVar[Role]
    needs_change: ClassVar[bool]

    @classmethod
    def from_argument(cls, argument: str, settings: CompressionSettings) -> Self:
        """Return the stage that ``name:argument`` stands for; `argument` is empty where only the name is given.

        Raises
        ------
        ValueError
            With what is allowed, if the argument is none.
        """
        ...


class Sparsifier(Protocol):
    """Chooses the entries that are sent.

    Attributes
    ----------
    leaves_null
        Whether entries that it does not send are null; else they are zero.
    allows_residual
        Whether what it does not send is a loss that a node may keep and send the next time.
    """

    leaves_null: bool
    allows_residual: bool

    def parts(self, layout: Layout) -> Mapping[str, Part]:
        """Return the parts that this stage adds to the payload."""
        ...

    def choose(self, arrays: State, *, seed: int) -> tuple[Mapping[str, Positions | None], Payload]:
        """Return the positions that are sent of each parameter, in the order of names, and what it adds.

        None stands for all of them; a parameter that is absent is not sent at all.
        """
        ...

    def chosen(self, payload: Payload, *, layout: Layout, seed: int) -> Mapping[str, Positions | None]:
        """Return, at the receiver, the positions that the sender chose."""
        ...

    def restored(self, entries: Entries, spec: ArraySpec) -> Entries:
        """Return the restored values of the sent entries of one parameter."""
        ...


class Transform(Protocol):
    """Turns a float32 vector into another one that a quantizer loses less of."""

    def lengths(self, before: Lengths) -> Lengths:
        """Return the segments of the output of `forward`."""
        ...

    def forward(self, values: Array, lengths: Lengths, *, seed: int) -> Array:
        """Return the vector to be quantized."""
        ...

    def back(self, values: Array, lengths: Lengths, *, seed: int) -> Array:
        """Invert `forward`; `lengths` are the lengths before it."""
        ...


class Quantizer(Protocol):
    """Writes a float32 vector with fewer bits.

    Attributes
    ----------
    rotates
        Whether it turns the vector by itself, so that a rotation before it would be done twice.
    """

    rotates: bool

    def parts(self, lengths: Lengths) -> Mapping[str, Part]:
        """Return the parts that this stage sends of a vector."""
        ...

    def encode(self, values: Array, lengths: Lengths, *, seed: int) -> Payload:
        """Return the parts."""
        ...

    def decode(self, payload: Payload, lengths: Lengths, *, seed: int) -> Array:
        """Return the vector.

        Raises
        ------
        Refused
            If `encode` cannot have made the parts; names, dtypes and lengths have been checked.
        """
        ...


class Entropy(Protocol):
    """Writes arrays with fewer bytes, without loss."""

    def encode(self, payload: Payload) -> Payload:
        """Return each array as bytes."""
        ...

    def decode(self, payload: Payload, parts: Mapping[str, Part]) -> Payload:
        """Return the arrays.

        Raises
        ------
        Refused
            If they are not the parts; what is longer than its part is not unpacked to its end.
        """
        ...


def share_from(argument: str, default: float) -> float:
    """Return the share in (0, 1] that an argument names.

    >>> share_from("0.25", default=0.1)
    0.25
    """
    try:
        share = float(argument) if argument else default
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise ValueError("the share of entries that is sent must be above 0 and at most 1, as in drop:0.1")
    return share


def bits_from(argument: str, default: int, *, most: int) -> int:
    """Return the number of bits that an argument names."""
    bits = int(argument) if argument.isdecimal() else 0 if argument else default
    if not 1 <= bits <= most:
        raise ValueError(f"the number of bits must be a whole number from 1 to {most}")
    return bits


def nothing_from(argument: str) -> None:
    """Accept no argument in silence."""
    if argument:
        raise ValueError("it takes nothing after its name")
