"""What an attack is: it overrides the one method that says what its nodes lie about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedlearn.core.state import Array, State
from fedlearn.data.data_spec import DataSpec, Examples

Float64 = NDArray[np.float64]
Factor = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Claim:
    """What a node is about to report, after training and before its codec.

    Parameters
    ----------
    state
        The state that the node was sent.
    arrays
        The state that the node has made of it.
    num_examples
        The weight that the node claims.

    Examples
    --------
    >>> claim = Claim({"w": np.zeros(2)}, {"w": np.ones(2)}, num_examples=20)
    >>> claim.changed(lambda change: -change).arrays["w"].tolist()
    [-1.0, -1.0]
    """

    state: State
    arrays: State
    num_examples: int

    def changed(self, by: Callable[[Float64], Float64]) -> Claim:
        """Return the claim with another change: `by` gets the change of each float parameter, in float64."""
        return replace(self, arrays={name: self._with(name, array, by) for name, array in self.arrays.items()})

    def _with(self, name: str, array: Array, by: Callable[[Float64], Float64]) -> Array:
        if array.dtype.kind != "f":
            return array
        before = self.state[name].astype(np.float64)
        return (before + by(array.astype(np.float64) - before)).astype(array.dtype)


class Attack:
    """A way to lie; a subclass overrides one of `poisoned`, `reported` and `lies`.

    Keyword parameters of its constructor are ``attack.options``. Randomness comes from the generator that a method
    gets, which is the same on every engine; a method changes none of its arguments but `memory`.

    >>> class Opposite(Attack):
    ...     def reported(self, claim, *, memory, rng):
    ...         return claim.changed(lambda change: -change)
    >>> claim = Claim({"w": np.zeros(1)}, {"w": np.ones(1)}, num_examples=20)
    >>> Opposite().reported(claim, memory={}, rng=np.random.default_rng(1)).arrays["w"].tolist()
    [-1.0]
    """

    def check(self, spec: DataSpec) -> None:
        """Raise ValueError, before round 1, for examples that cannot be attacked so."""

    def poisoned(self, examples: Examples, *, classes: int, rng: np.random.Generator) -> Examples:
        """Return the examples that an attacker trains on in place of its own; `classes` is 0 in a regression."""
        return examples

    def reported(self, claim: Claim, *, memory: dict[str, Array], rng: np.random.Generator) -> Claim:
        """Return what an attacker reports in place of what it has trained.

        Parameters
        ----------
        memory
            What the attack keeps on the node from round to round, empty at first; to be changed in place.
        """
        return claim

    def lies(self, changes: Float64, *, attackers: int, rng: np.random.Generator) -> Float64:
        """Return the changes that the attackers report, shape (attackers, entries); in simulations only.

        Parameters
        ----------
        changes
            The changes of the honest nodes that the gate has let through, shape (nodes, entries). An entry that a node
            left null is the mean of those that the others sent.
        """
        raise NotImplementedError

    def triggered(self, examples: Examples) -> Examples | None:
        """Return the test examples that measure the attack's success, with the targets that it wants; None if none."""
        return None

    @property
    def poisons(self) -> bool:
        """Whether attackers train on other examples than their own."""
        return type(self).poisoned is not Attack.poisoned

    @property
    def sees_all(self) -> bool:
        """Whether the attack needs the honest changes of the round."""
        return type(self).lies is not Attack.lies

    @property
    def is_measured(self) -> bool:
        """Whether the test set shows how often the attack succeeds."""
        return type(self).triggered is not Attack.triggered
