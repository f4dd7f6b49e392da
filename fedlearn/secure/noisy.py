"""Changes with a share of noise, as whole numbers that go into a secure sum exactly as they are.

Nothing is cut off: the sum of the nodes modulo 2^b is a function of their exact sum, and so post-processing of what the
noise protects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError
from fedlearn.core.state import Layout, State
from fedlearn.privacy.local_dp import OwnNoise
from fedlearn.privacy.noise import Noise
from fedlearn.secure.masks import Words
from fedlearn.secure.summands import Kept, Total
from fedlearn.secure.whole import MOST_BITS, with_sign, without_sign

TAIL = 12.0  # standard deviations of the noise of a sum: beyond them lies a number of 10^32
COARSE = 2.0  # the grid has so many times the root of the number of entries steps in clip, or more


@dataclass(frozen=True)
class NoisyChanges:
    """The entries of a secure sum of noisy changes, and how they become numbers modulo 2^b and a sum again.

    An entry is a whole number of steps of clip / reach (`OwnNoise`). The sum of n nodes lies within n * reach, for
    their changes, and `TAIL` deviations of their noise, on either side of zero; b holds both.

    Parameters
    ----------
    layout
        The state's, all of floats.
    noise
        Noise of each node.
    nodes
        n: the most nodes that a sum has.

    Raises
    ------
    SettingError
        If the grid is too coarse for so many entries, or no word holds the sum.
    """

    layout: Layout
    noise: OwnNoise = field(repr=False)
    nodes: int

    @classmethod
    def of(cls, config: RunConfig, layout: Layout) -> NoisyChanges:
        """Return those of a run."""
        return cls(layout, OwnNoise.of(config), config.largest_cohort)

    def __post_init__(self) -> None:
        bits = self.noise.reach.bit_length()
        if self.noise.reach < COARSE * math.sqrt(self.count):
            raise SettingError(
                "secure.bits", bits, f"rounding would hide a change of {self.count:,} entries: use more bits"
            )
        if self.modulus_bits > MOST_BITS:
            raise SettingError(
                "secure.bits", bits, f"sums of {self.nodes} clients with their noise do not fit into {MOST_BITS} bits: "
                "use fewer",
            )  # fmt: skip

    @cached_property
    def count(self) -> int:
        """Entries of the vector."""
        return sum(spec.size for spec in self.layout.values())

    @cached_property
    def largest(self) -> int:
        """The largest absolute number of a sum of honest nodes."""
        noise = TAIL * self.noise.deviation * math.sqrt(self.nodes)
        return self.nodes * self.noise.reach + math.ceil(noise)

    @property
    def modulus_bits(self) -> int:
        """Bits of a number that holds the sum of all nodes, with its sign."""
        return (2 * self.largest).bit_length()

    @property
    def kept(self) -> Kept:
        """The entries that are in the vector: all."""
        return dict.fromkeys(self.layout)

    def shared(self, change: State, noise: Noise) -> NDArray[np.int64]:
        """Return the whole numbers of one node, (count,): its change, shortened to clip, and its share of the noise.

        Parameters
        ----------
        change
            Parameter -> change against the state that the node was sent.
        """
        flat = np.concatenate([np.zeros(0), *(np.asarray(change[n], np.float64).reshape(-1) for n in self.layout)])
        return self.noise.share_added_to(flat, noise)

    def encoded(self, numbers: NDArray[np.int64]) -> Words:
        """Return the numbers modulo 2^b, (count,).

        Raises
        ------
        Refused
            If there are more or fewer numbers.
        """
        return without_sign(numbers, count=self.count, bits=self.modulus_bits)

    def decoded(self, total: Words, nodes: int) -> Total:
        """Return the noisy sum of the changes of so many nodes, of a total that is reduced modulo 2^b.

        Raises
        ------
        Refused
            If an entry is larger than honest nodes' numbers can add up to.
        """
        signed = with_sign(total, bits=self.modulus_bits, largest=self.largest)
        values = signed * (self.noise.clip / self.noise.reach)
        ends = np.cumsum([spec.size for spec in self.layout.values()])[:-1]
        changes: Mapping[str, NDArray[np.float64]] = dict(zip(self.layout, np.split(values, ends), strict=True))
        return Total(nodes, nodes, changes, {})
