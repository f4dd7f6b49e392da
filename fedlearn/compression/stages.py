"""The kinds of stages in a codec chain, and the methods of each; `chain.py` runs them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, Self

from fedlearn.compression.codec import Payload
from fedlearn.core.state import Array, ArraySpec, Entries, Layout, Positions, State

if TYPE_CHECKING:
    from fedlearn.config.tables.reports import CompressionSettings


class Role(IntEnum):
    """The kind of a stage. Stages stand in this order in a chain, at most one of each kind.

    >>> sorted([Role.QUANTIZER, Role.SPARSIFIER])[0].name, str(Role.ENTROPY)
    ('SPARSIFIER', 'entropy')
    """

    RESIDUAL = 0
    SPARSIFIER = 1
    TRANSFORM = 2
    QUANTIZER = 3
    ENTROPY = 4

    def __str__(self) -> str:
        """Return the name in lower case, as errors use it."""
        return self.name.lower()


class Part(NamedTuple):
    """One array of a payload, as the decoder expects it.

    Parameters
    ----------
    length
        Number of entries; if not `exact`, the largest possible number.

    Examples
    --------
    >>> Part("float32", 10).exact
    True
    """

    dtype: str
    length: int
    exact: bool = True


Lengths = Sequence[int]
"""The lengths of a vector's segments, all above zero; a segment is a parameter's values, or a transform's block."""


class Stage(Protocol):
    """One link of a chain, as the setting names it; every stage is also of one of the kinds below.

    Attributes
    ----------
    needs_change
        Whether the stage makes sense for the change of the weights only, as it is biased or counts unsent entries as 0.

    Examples
    --------
    >>> from fedlearn.compression.fp16 import Fp16
    >>> str(Fp16.role), Fp16.needs_change
    ('quantizer', False)
    """

    role: ClassVar[Role]
    needs_change: ClassVar[bool]

    @classmethod
    def from_argument(cls, argument: str, settings: CompressionSettings) -> Self:
        """Return the stage that ``name:argument`` stands for; `argument` is empty where only the name is given.

        Raises
        ------
        ValueError
            With the allowed values, if the argument is not one of them.
        """
        ...


class Sparsifier(Protocol):
    """Chooses the entries that are sent.

    Attributes
    ----------
    leaves_null
        Whether unsent entries are null; else they are zero.
    allows_residual
        Whether unsent entries are a loss that a node may keep and add to its next update.

    Examples
    --------
    >>> import numpy as np
    >>> from fedlearn.compression.drop import Drop
    >>> positions, _ = Drop(keep_ratio=0.25).choose({"w": np.arange(1000.0)}, seed=1)
    >>> 200 < len(positions["w"]) < 300
    True
    """

    leaves_null: bool
    allows_residual: bool

    def parts(self, layout: Layout) -> Mapping[str, Part]:
        """Return the parts that this stage adds to the payload."""
        ...

    def choose(self, arrays: State, *, seed: int) -> tuple[Mapping[str, Positions | None], Payload]:
        """Return the sent positions of each parameter, in the order of names, and the parts that this stage adds.

        None stands for all positions; a parameter that is absent is not sent at all.
        """
        ...

    def chosen(self, payload: Payload, *, layout: Layout, seed: int) -> Mapping[str, Positions | None]:
        """Return, at the receiver, the positions that the sender chose."""
        ...

    def restored(self, entries: Entries, spec: ArraySpec) -> Entries:
        """Return the restored values of the sent entries of one parameter."""
        ...


class Transform(Protocol):
    """Turns a float32 vector into another one of which a quantizer loses less.

    >>> import numpy as np
    >>> from fedlearn.compression.rotate import Rotate
    >>> values = np.arange(1, 9, dtype=np.float32)
    >>> Rotate().back(Rotate().forward(values, [8], seed=1), [8], seed=1).round(3).tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    """

    def lengths(self, before: Lengths) -> Lengths:
        """Return the segments of the output of `forward`."""
        ...

    def forward(self, values: Array, lengths: Lengths, *, seed: int) -> Array:
        """Return the vector to be quantized."""
        ...

    def back(self, values: Array, lengths: Lengths, *, seed: int) -> Array:
        """Return the vector before `forward`; `lengths` are the lengths of its segments."""
        ...


class Quantizer(Protocol):
    """Writes a float32 vector with fewer bits.

    Attributes
    ----------
    rotates
        Whether the quantizer rotates the vector by itself, so that a `rotate` before it would be a second rotation.

    Examples
    --------
    >>> import numpy as np
    >>> from fedlearn.compression.fp16 import Fp16
    >>> Fp16().decode(Fp16().encode(np.ones(2, np.float32), [2], seed=1), [2], seed=1)
    array([1., 1.], dtype=float32)
    """

    rotates: bool

    def parts(self, lengths: Lengths) -> Mapping[str, Part]:
        """Return the parts that this stage sends of a vector."""
        ...

    def encode(self, values: Array, lengths: Lengths, *, seed: int) -> Payload:
        """Return the parts of a vector."""
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
            If the arrays are not the parts; an array that is longer than its part is not unpacked to its end.
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
    """Raise ValueError for any argument of a stage that takes none.

    >>> nothing_from("0.1")
    Traceback (most recent call last):
        ...
    ValueError: it takes no argument: write its name alone
    """
    if argument:
        raise ValueError("it takes no argument: write its name alone")
