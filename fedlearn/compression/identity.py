"""Sends everything: the baseline that compression ratios are measured against."""

from __future__ import annotations

import numpy as np

from fedlearn.compression.codec import Payload, check_dtype, check_names
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.errors import Refused
from fedlearn.core.state import Entries, Layout, State, Update, UpdateKind


class Identity:
    """Sends every parameter whole, under its own name."""

    accepts = frozenset(UpdateKind)
    needs_change = ""
    keeps_residual = False

    def emits(self, kind: UpdateKind) -> UpdateKind:
        """Return `kind`, as every entry is sent."""
        return kind

    @classmethod
    def from_settings(cls, settings: CompressionSettings) -> Identity:
        """Return the codec; it has no settings."""
        return cls()

    def encode(self, arrays: State, *, seed: int) -> Payload:
        """Return the arrays unchanged."""
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
