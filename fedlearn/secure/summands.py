"""What a secure sum adds up: the changes of all float parameters, then the metrics, then the node's weight.

All are entries of one vector of whole numbers (`fixed_point`), so that nothing of a single node leaves it in the clear.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedlearn.compression import load_codec
from fedlearn.compression.chain import Chain
from fedlearn.compression.drop import Drop
from fedlearn.compression.identity import Identity
from fedlearn.config import RunConfig
from fedlearn.core.errors import Refused, SettingError
from fedlearn.core.seeding import rng_for
from fedlearn.core.state import Array, ArraySpec, Layout, Positions, State
from fedlearn.secure.fixed_point import LARGEST_WEIGHT, FixedPoint, coarse_weight, concatenated
from fedlearn.secure.groups import largest_group
from fedlearn.secure.masks import Words, zeros

Flat = NDArray[np.float64]


Kept = Mapping[str, Positions | None]
"""Parameter -> positions of the entries that are summed, None for all; a parameter not in here is dropped whole."""


def fixed_point_of(config: RunConfig) -> FixedPoint:
    """Return how entries become whole numbers in a run."""
    secure, nodes = config.secure, config.largest_cohort
    if secure.group_size:
        nodes = most_in_a_group(config)
    largest = LARGEST_WEIGHT if secure.weights == "coarse" else 1
    return FixedPoint(secure.clip, secure.bits, nodes, largest)


def most_in_a_group(config: RunConfig) -> int:
    """Return the nodes of the largest group of any cohort of a run."""
    return largest_group(config.secure.group_size, fewest=config.fewest_reports, most=config.largest_cohort)


def dropping(config: RunConfig) -> Drop | None:
    """Return the stage that drops entries, where the codec is that one stage; None for the codec that drops nothing.

    Raises
    ------
    SettingError
        For any other codec.
    """
    codec = load_codec(config.compression)
    if isinstance(codec, Identity):
        return None
    if isinstance(codec, Chain) and isinstance(codec.sparsifier, Drop) and codec == Chain(codec.sparsifier):
        return codec.sparsifier
    raise SettingError(
        "compression.codec", config.compression.codec,
        "with secure sums reports are fixed-point numbers of secure.bits: use 'identity', or 'drop' in groups",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of the nodes' summands, decoded.

    Parameters
    ----------
    nodes
        How many nodes are in it.
    weight
        The sum of the nodes' weights.
    changes
        Parameter -> the sum of weight times change over the nodes, of the entries that were summed: (kept,).
    metrics
        Metric -> weighted mean over the nodes.
    """

    nodes: int
    weight: int
    changes: Mapping[str, Flat]
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Summands:
    """The entries of a secure sum, in their order, and how they become whole numbers.

    Parameters
    ----------
    config
        The run's settings: clipping ranges, bits, weights, and the largest cohort.
    layout
        The state's. Integer and boolean parameters are not summed: they keep their values.
    metrics
        The names of the metrics that nodes report.
    seed
        Of the dropped entries (`groups.drop_seed`); without a codec that drops it says nothing.
    places
        Of the server, where the layout is a slice's: parameter -> the positions of its entries in the whole state.
    """

    config: RunConfig
    layout: Layout
    metrics: Sequence[str]
    seed: int = 0
    places: Kept | None = None

    @property
    def fixed(self) -> FixedPoint:
        """How entries become whole numbers."""
        return fixed_point_of(self.config)

    @property
    def modulus_bits(self) -> int:
        """Bits of a number that holds the sum of all nodes."""
        return self.fixed.modulus_bits

    @property
    def is_weighted(self) -> bool:
        """Whether nodes have weights other than one."""
        return self.config.secure.weights == "coarse"

    @property
    def summed(self) -> dict[str, ArraySpec]:
        """The parameters that are summed."""
        return {name: spec for name, spec in self.layout.items() if np.dtype(spec.dtype).kind == "f"}

    @cached_property
    def kept(self) -> Kept:
        """The entries of the summed parameters that are in the vector; the others are null."""
        if self.places is not None:
            return {name: self.places[name] for name in self.summed}
        stage = dropping(self.config)
        return dict.fromkeys(self.summed) if stage is None else stage.chosen({}, layout=self.summed, seed=self.seed)

    @property
    def lengths(self) -> dict[str, int]:
        """How many entries of each parameter are in the vector, in its order."""
        sizes = ((name, spec.size, self.kept[name]) for name, spec in self.summed.items() if name in self.kept)
        return {name: size if positions is None else len(positions) for name, size, positions in sizes}

    @property
    def count(self) -> int:
        """Entries of the vector."""
        return sum(self.lengths.values()) + len(self.metrics) + self.is_weighted

    def encoded(
        self, change: State, metrics: Mapping[str, float], examples: int, *, round_number: int, node: int
    ) -> Words:
        """Return the vector of one node: (count,) whole numbers below 2^modulus_bits.

        Parameters
        ----------
        change
            Parameter -> change against the state that the node was sent.
        examples
            The node's number of examples, which its weight is made of, where nodes have weights.
        round_number, node
            Give the random rounding, the same in each attempt; `node` is the partition id.

        Raises
        ------
        Refused
            If a change is not finite, or a metric is missing or NaN.
        """
        secure = self.config.secure
        measured = np.array([_finite(name, metrics) for name in self.metrics], np.float32)
        scaled = np.clip(measured / np.float32(secure.metric_clip), -1, 1) * np.float32(secure.clip)
        values = concatenated([*(_at(change[name], self.kept[name]) for name in self.lengths), scaled])
        rng = rng_for(self.config.seed, purpose="secure rounding", round_number=round_number, node=node)
        weight = coarse_weight(examples // secure.weight_unit, LARGEST_WEIGHT) if self.is_weighted else 1
        vector = self.fixed.encoded(values, rng, weight=weight)
        if not self.is_weighted:
            return vector
        whole = zeros(len(vector) + 1, self.fixed.modulus_bits)
        whole[:-1], whole[-1] = vector, weight
        return whole

    def decoded(self, total: Words, nodes: int) -> Total:
        """Return what the sum of the vectors of so many nodes says.

        Raises
        ------
        Refused
            If it is none of the sums that honest nodes could have.
        """
        weight = int(total[-1]) if self.is_weighted else nodes
        if not nodes <= weight <= nodes * self.fixed.largest_weight:
            raise Refused("sum-out-of-range", f"{nodes} clients cannot weigh {weight}: one of them has lied")
        sums = self.fixed.decoded(total[:-1] if self.is_weighted else total, weight)
        changes, start = {}, 0
        for name, length in self.lengths.items():
            changes[name] = sums[start : start + length]
            start += length
        scale = self.config.secure.metric_clip / self.config.secure.clip / weight
        return Total(nodes, weight, changes, dict(zip(self.metrics, (sums[start:] * scale).tolist(), strict=True)))


def _at(array: Array, positions: Positions | None) -> Array:
    """Return the entries at some positions, all where they are None."""
    return array if positions is None else array.reshape(-1)[positions]


def _finite(name: str, metrics: Mapping[str, float]) -> float:
    value = metrics.get(name, np.nan)
    if np.isnan(value):
        raise Refused("wrong-metric", f"{name} was not measured, and a secure sum wants it of each client")
    return float(value)
