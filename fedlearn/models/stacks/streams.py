"""Streams of random numbers, one for each node: the nodes of a stack share torch's generator, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from fedlearn.models.torch.device import CPU, seed_torch


class Stream:
    """Random numbers that torch's generators would draw if the node were alone.

    Parameters
    ----------
    seed
        Seed of the stream.
    device
        Device on which the node computes.
    """

    def __init__(self, seed: int, device: torch.device = CPU) -> None:
        self._generators = [torch.default_generator]
        if device.type == "cuda":
            self._generators.append(torch.cuda.default_generators[device.index or 0])
        self._states: list[Tensor] | None = None
        with self.drawing():
            seed_torch(device, seed)

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Let torch's generators draw from this stream in the block."""
        before = self._put(self._states)
        try:
            yield
        finally:
            self._states = self._put(before)

    def _put(self, states: list[Tensor] | None) -> list[Tensor]:
        """Set the generators to these states, if there are any; return their states before."""
        before = [each.get_state() for each in self._generators]
        for generator, state in zip(self._generators, states or before, strict=True):
            generator.set_state(state)
        return before
