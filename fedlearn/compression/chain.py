"""Stages one after another, as one codec.

```text
arrays ─ sparsifier ─> sent entries ─ joined by dtype ─> vector ─ transform ─> vector ─ quantizer ─> parts ─ entropy ─>
```

The sent entries of all parameters of one floating dtype, in the order of names, become one vector, so that a payload
has few arrays and no header for each parameter. Integer parameters are neither transformed nor quantized. A part
travels as ``dtype/part``: ``float32/codes``.

Running statistics of normalization go whole and as they are, joined by dtype: few, and in other units than weights,
they would put their own error into every weight of a rotated vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fedlearn.compression.codec import Payload, check_dtype, check_names
from fedlearn.compression.stages import Entropy, Lengths, Part, Quantizer, Sparsifier, Transform
from fedlearn.core.errors import Refused
from fedlearn.core.seeding import seed_for
from fedlearn.core.state import (
    Array,
    ArraySpec,
    Entries,
    Layout,
    Positions,
    State,
    Update,
    UpdateKind,
    is_running,
    layout_of,
)

T = TypeVar("T")
Chosen = Mapping[str, Positions | None]
STATISTICS = "statistics"  # the part that holds all running statistics of a dtype


class Everything:
    """The sparsifier of a chain without one: every entry is sent."""

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
        """Return the entries."""
        return entries


class Plain:
    """The quantizer of a chain without one: values travel as they are.

    Parameters
    ----------
    dtype
        The dtype of the values.
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


@dataclass(frozen=True)
class Chain:
    """A codec made of stages; any stage may be missing.

    Parameters
    ----------
    keeps_residual, needs_change
        As `Codec` has them.
    """

    sparsifier: Sparsifier | None = None
    transform: Transform | None = None
    quantizer: Quantizer | None = None
    entropy: Entropy | None = None
    keeps_residual: bool = False
    needs_change: str = ""

    accepts = frozenset({UpdateKind.DENSE})

    def emits(self, kind: UpdateKind) -> UpdateKind:
        """Return MASKED if the chain leaves entries null, else `kind`."""
        return UpdateKind.MASKED if self._sparsifier.leaves_null else kind

    def encode(self, arrays: State, *, seed: int) -> Payload:
        """Return the payload: the parts of every dtype."""
        layout = layout_of(arrays)
        picked, extra = self._sparsifier.choose(_without_running(arrays), seed=seed)
        chosen, payload = _with_running(picked, layout), dict(extra)
        for group, lengths in _lengths(layout, chosen).items():
            vector = np.concatenate([_sent(arrays[name], chosen[name]) for name in lengths])
            payload |= _named(group, self._quantized(group, vector, _segments(lengths), seed))
        return self.entropy.encode(payload) if self.entropy else payload

    @np.errstate(over="ignore", invalid="ignore")  # the gate refuses infinity
    def decode(self, payload: Payload, *, layout: Layout, seed: int) -> Update:
        """Return the sent entries with their positions, by parameter."""
        rest = _without_running(layout)
        own = self._sparsifier.parts(rest)
        found = self._checked({name: payload[name] for name in own if name in payload}, own)
        chosen = _with_running(self._sparsifier.chosen(found, layout=rest, seed=seed), layout)
        lengths = _lengths(layout, chosen)
        parts = [self._parts(group, _segments(mine)) for group, mine in lengths.items()]
        expected = {name: part for each in parts for name, part in each.items()}
        check_names(payload, expected={**own, **expected})
        arrays = self._checked({name: payload[name] for name in expected}, expected)
        update: dict[str, Entries] = {}
        for group, mine in lengths.items():
            vector = self._restored(group, arrays, _segments(mine), seed)
            starts = np.cumsum(list(mine.values()))[:-1]
            for name, values in zip(mine, np.split(vector, starts), strict=True):
                update[name] = self._sparsifier.restored(Entries(values, chosen[name]), layout[name])
        return {name: update[name] for name in layout if name in update}

    @property
    def _sparsifier(self) -> Sparsifier:
        return self.sparsifier or Everything()

    def _stages_for(self, group: str) -> tuple[Transform | None, Quantizer]:
        if self.quantizer is None or group.endswith(STATISTICS) or np.dtype(group).kind != "f":
            return None, Plain(_dtype_of(group))
        return self.transform, self.quantizer

    def _quantized(self, group: str, vector: Array, lengths: Lengths, seed: int) -> Payload:
        transform, quantizer = self._stages_for(group)
        if not isinstance(quantizer, Plain):
            with np.errstate(over="ignore"):
                vector = vector.astype(np.float32, copy=False)
        if transform:
            vector = transform.forward(vector, lengths, seed=seed_for(seed, purpose=f"transform/{group}"))
            lengths = transform.lengths(lengths)
        return quantizer.encode(vector, lengths, seed=seed_for(seed, purpose=f"quantizer/{group}"))

    def _parts(self, group: str, lengths: Lengths) -> dict[str, Part]:
        transform, quantizer = self._stages_for(group)
        after = transform.lengths(lengths) if transform else lengths
        return _named(group, quantizer.parts(after))

    def _restored(self, group: str, arrays: Payload, lengths: Lengths, seed: int) -> Array:
        transform, quantizer = self._stages_for(group)
        after = transform.lengths(lengths) if transform else lengths
        mine = {part: arrays[_name(group, part)] for part in quantizer.parts(after)}
        vector = quantizer.decode(mine, after, seed=seed_for(seed, purpose=f"quantizer/{group}"))
        if transform:
            vector = transform.back(vector, lengths, seed=seed_for(seed, purpose=f"transform/{group}"))
        return vector.astype(_dtype_of(group), copy=False)

    def _checked(self, payload: Payload, parts: Mapping[str, Part]) -> Payload:
        """Return these arrays without their entropy coding; raise Refused for other names, shapes or dtypes."""
        check_names(payload, expected=parts)
        if self.entropy:
            payload = self.entropy.decode(payload, parts)
        for name, part in parts.items():
            shape = payload[name].shape
            if len(shape) != 1 or shape[0] > part.length or (part.exact and shape[0] != part.length):
                raise Refused("wrong-shape", f"{name} has shape {shape}, expected ({part.length},)")
            check_dtype(name, payload[name], expected=part.dtype)
        return payload


def _without_running(arrays: Mapping[str, T]) -> dict[str, T]:
    return {name: each for name, each in arrays.items() if not is_running(name)}


def _with_running(chosen: Chosen, layout: Layout) -> Chosen:
    """Return what a sparsifier has chosen, and all running statistics whole."""
    return {**chosen, **dict.fromkeys(sorted(filter(is_running, layout)))}


def _sent(array: Array, positions: Positions | None) -> Array:
    flat = array.reshape(-1)
    return flat if positions is None else flat[positions]


def _lengths(layout: Layout, chosen: Chosen) -> dict[str, dict[str, int]]:
    """Return the number of sent entries: group -> parameter -> number.

    A group is a dtype, as ``float32``, or the running statistics of one, ``float32/statistics``.
    """
    lengths: dict[str, dict[str, int]] = {}
    for name, positions in chosen.items():
        spec = layout[name]
        group = _name(spec.dtype, STATISTICS) if is_running(name) else spec.dtype
        lengths.setdefault(group, {})[name] = spec.size if positions is None else len(positions)
    return lengths


def _segments(lengths: Mapping[str, int]) -> Lengths:
    return tuple(length for length in lengths.values() if length)


def _dtype_of(group: str) -> str:
    return group.partition("/")[0]


def _name(group: str, part: str) -> str:
    return f"{group}/{part}" if part else group


def _named(group: str, parts: Mapping[str, T]) -> dict[str, T]:
    return {_name(group, part): value for part, value in parts.items()}
