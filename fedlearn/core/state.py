"""Named arrays: the global model (`State`), and what a node sends about it (`Update`).

A *null* entry is one that a node did not send. It carries no number anywhere: an `Entries` holds the values that were
sent and their positions only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Positions = NDArray[np.int64]
"""Flat C-order positions of entries, ascending."""
State = Mapping[str, Array]
"""The global model: parameter name -> array. Never changed in place: a round makes a new one."""


class UpdateKind(StrEnum):
    """The meaning of an update's entries, which says how updates may be combined.

    >>> UpdateKind.MASKED.is_averaged, UpdateKind.SUMS.is_averaged
    (True, False)
    """

    DENSE = "dense"  #: every entry is present; any average is meaningful
    MASKED = "masked"  #: some entries are null; average each entry over the nodes that sent it
    ENSEMBLE = "ensemble"  #: members to be united; averaging entries is meaningless
    SUMS = "sums"  #: whole numbers to be added up, and appended to those of the state; no weights, no mean

    @property
    def is_averaged(self) -> bool:
        """Whether an average of updates is an update again: their entries are those of the state."""
        return self in (UpdateKind.DENSE, UpdateKind.MASKED)


class Sends(StrEnum):
    """The values of an update: weights, or their change.

    >>> Sends("update") is Sends.UPDATE
    True
    """

    WEIGHTS = "weights"  #: the node's new parameters
    UPDATE = "update"  #: the change of the parameters against the state that the node was sent


NEVER_NEGATIVE = ("running_var", "num_batches_tracked")
"""Names, after the last dot, of parameters that are never negative: those of torch's normalization layers."""

COMPILED = "_orig_mod"
"""Where the wrapper of `torch.compile` holds a module; a state has plain names, without it."""


def plain_names(state: State) -> State:
    """Return a state under the names that its module has without a wrapper of `torch.compile`.

    >>> list(plain_names({"_orig_mod.0.weight": np.zeros(1)}))
    ['0.weight']
    """
    return {name.replace(f"{COMPILED}.", ""): array for name, array in state.items()}


RUNNING = ("running_mean", "running_var")
"""Names, after the last dot, of statistics that torch's normalization layers keep of their inputs."""


def is_running(name: str) -> bool:
    """Return whether an array holds running statistics of normalization, by its name.

    >>> is_running("body.1.running_mean"), is_running("body.1.weight")
    (True, False)
    """
    return name.rpartition(".")[2] in RUNNING


def takes_steps(name: str, array: Array) -> bool:
    """Return whether steps change an array; whole numbers and running statistics are only averaged.

    >>> takes_steps("0.weight", np.zeros(2)), takes_steps("1.running_mean", np.zeros(2))
    (True, False)
    """
    return array.dtype.kind == "f" and not is_running(name)


def is_never_negative(name: str) -> bool:
    """Return whether the entries of a parameter are never negative, by its name.

    >>> is_never_negative("body.1.running_var")
    True
    """
    return name.rpartition(".")[2] in NEVER_NEGATIVE


def kept_in_bounds(after: State, before: State) -> State:
    """Return the new state, in which a negative entry that must not be negative has the magnitude of its value before.

    Codecs that lose something, and strategies that go beyond a mean, lead to negative values.

    >>> kept_in_bounds({"norm.running_var": np.array([-0.1, 2.0])}, {"norm.running_var": np.array([0.5, 1.0])})
    {'norm.running_var': array([0.5, 2. ])}
    """
    signed = [name for name in after if is_never_negative(name) and (after[name] < 0).any()]
    return {**after, **{name: np.where(after[name] < 0, np.abs(before[name]), after[name]) for name in signed}}


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Shape and dtype of one named array.

    >>> ArraySpec((2, 3), "float32").size
    6
    """

    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)


Layout = Mapping[str, ArraySpec]
"""Parameter name -> its shape and dtype, in the model's own order."""


def layout_of(state: State) -> dict[str, ArraySpec]:
    """Return the layout of a state.

    >>> layout_of({"bias": np.zeros(3, np.float32)})
    {'bias': ArraySpec(shape=(3,), dtype='float32')}
    """
    return {name: ArraySpec(tuple(array.shape), str(array.dtype)) for name, array in state.items()}


def is_same(state: State, other: State) -> bool:
    """Return whether two states have the same names, types, shapes and bits.

    >>> zero = {"bias": np.zeros(1)}
    >>> is_same(zero, {"bias": np.zeros(1)}), is_same(zero, {"bias": -np.zeros(1)})
    (True, False)
    """
    if state is other:
        return True
    return layout_of(state) == layout_of(other) and all(
        a.tobytes() == other[name].tobytes() for name, a in state.items()
    )


def digest_of(state: State) -> str:
    """Return the SHA-256 of names, types, shapes and numbers, whatever their order.

    >>> one = {"bias": np.zeros(1), "scale": np.ones(1)}
    >>> digest_of(one) == digest_of({"scale": np.ones(1), "bias": np.zeros(1)})
    True
    """
    digest = sha256()
    for name, array in sorted(state.items()):
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def difference(after: Array, before: Array) -> Array:
    """Return the change of an array: the difference; of booleans (masks) the places that differ."""
    return after ^ before if after.dtype.kind == "b" else after - before


def changed_by(before: Array, change: Array) -> Array:
    """Return the array after a change that `difference` has returned.

    >>> mask = np.array([True, False])
    >>> changed_by(mask, difference(np.array([True, True]), mask))
    array([ True,  True])
    """
    return before ^ change if before.dtype.kind == "b" else before + change


@dataclass(frozen=True, slots=True)
class Entries:
    """The sent entries of one parameter.

    Parameters
    ----------
    values
        All entries in C order, shape (size,), or the sent ones, shape (n_sent,).
    positions
        Flat C-order positions of the sent values, ascending, shape (n_sent,); None where every entry was sent.

    Examples
    --------
    >>> Entries(np.arange(6.0)).dense(ArraySpec((2, 3), "float64")).tolist()
    [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    """

    values: Array
    positions: Positions | None = None

    def dense(self, spec: ArraySpec) -> Array:
        """Return the parameter in its own shape; raise ValueError where entries are null."""
        if self.positions is not None:
            raise ValueError("some entries are null: there is no dense array")
        return self.values.reshape(spec.shape)


Update = Mapping[str, Entries]
"""Parameter name -> its sent entries; a parameter that is absent was not sent at all."""


def dense_update(state: State) -> dict[str, Entries]:
    """Return the update that sends every entry of `state`."""
    return {name: Entries(np.ascontiguousarray(array).reshape(-1)) for name, array in state.items()}
