"""Sends everything: the baseline that compression ratios are measured against."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedlearn.compression.base import Payload
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.words.errors import Refused
from fedlearn.words.state import Array, Entries, Layout, State, Update, UpdateKind


class Identity:
    """Every parameter travels whole, under its own name."""

    accepts = frozenset(UpdateKind)
    needs_change = ""
    keeps_residual = False

    def emits(self, kind: UpdateKind) -> UpdateKind:
        """Return `kind`: nothing is changed."""
        return kind

    @classmethod
    def from_settings(cls, settings: CompressionSettings) -> Identity:
        """Return the codec; it has no settings."""
        return cls()

    def encode(self, arrays: State, *, seed: int) -> Payload:
        """Return the arrays."""
        return arrays

    def decode(self, payload: Payload, *, layout: Layout, seed: int) -> Update:
        """Return every entry of every parameter."""
        check_names(payload, expected=layout)
        update = {}
        for name, spec in layout.items():
            array = payload[name]
            if array.shape != spec.shape:
                raise Refused("wrong-shape", f"{name} has shape {array.shape}, the model's is {spec.shape}")
            check_dtype(name, array, expected=spec.dtype)
            update[name] = Entries(np.ascontiguousarray(array).reshape(-1))
        return update


def check_names(payload: Payload, *, expected: Mapping[str, object]) -> None:
    """Refuse a payload whose names are not exactly the expected ones."""
    if payload.keys() != expected.keys():
        unknown = sorted(payload.keys() - expected.keys())
        missing = sorted(expected.keys() - payload.keys())
        raise Refused("wrong-names", f"unknown: {unknown or 'none'}; missing: {missing or 'none'}")


def check_dtype(name: str, array: Array, *, expected: str) -> None:
    """Refuse an array of another dtype."""
    if array.dtype != expected:
        raise Refused("wrong-dtype", f"{name} has dtype {array.dtype}, expected {expected}")
