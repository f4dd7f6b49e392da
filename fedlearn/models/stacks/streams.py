"""A node's own stream of random numbers: torch draws from one generator, and the nodes of a stack take turns at it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from fedlearn.models.device import CPU, seed_torch


class Stream:
    """What torch's generators would draw next, if the node were alone.

    Parameters
    ----------
    seed
        Where it begins.
    device
        On which the node computes.
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
        """Have everything that is drawn from torch's generators be of this stream."""
        before = self._put(self._states)
        try:
            yield
        finally:
            self._states = self._put(before)

    def _put(self, states: list[Tensor] | None) -> list[Tensor]:
        """Put the generators into these states, where there are any; return those that they were in."""
        before = [each.get_state() for each in self._generators]
        for generator, state in zip(self._generators, states or before, strict=True):
            generator.set_state(state)
        return before
