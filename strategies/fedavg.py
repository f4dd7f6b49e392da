"""FedAvg over the entries that were sent, and server optimizers on the mean change.

An entry that no node sent keeps its value, and a server optimizer's moments for it stay as they are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import numpy as np

from fedlearn.config.schema import StrategySettings
from fedlearn.state import Array, Sends, State
from strategies.base import SPATIAL, SURVIVORS, RoundStrategy
from strategies.masked_mean import Float64, MaskedSum
from strategies.spatial import spatial_factor


class FedAvg(RoundStrategy):
    """The mean over the nodes that sent the entry; McMahan et al. 2017 (arXiv:1602.05629), algorithm 1."""

    decoders = frozenset({SURVIVORS, SPATIAL})

    def next_state(self, state: State, reports: MaskedSum, *, sends: Sends, round_number: int) -> State:
        """Return the mean, or the old state plus the mean change."""
        if sends is Sends.WEIGHTS:
            return reports.mean(otherwise=state)
        after = {}
        for name, array in state.items():
            change, sent = change_of(name, reports, state, sends, self.decoder)
            after[name] = np.where(sent, array + change, array)  # -0.0 + 0.0 would not be the old value
        return after


def change_of(name: str, reports: MaskedSum, state: State, sends: Sends, decoder: str) -> tuple[Array, Array]:
    """Return the mean change of one parameter, zero where nobody sent, and where somebody did.

    Both have the parameter's shape; the change has its dtype.
    """
    array = state[name]
    if name not in reports.totals:
        return np.zeros_like(array), np.zeros(array.shape, bool)
    otherwise = array if sends is Sends.WEIGHTS else np.zeros_like(array)
    mean = reports.mean(otherwise={name: otherwise})[name]
    if decoder == SPATIAL and array.dtype.kind == "f":
        factor = np.broadcast_to(spatial_factor(name, reports), (array.size,))
        mean = (mean * factor.reshape(array.shape)).astype(array.dtype)
    change = mean - array if sends is Sends.WEIGHTS else mean
    sent = np.broadcast_to(reports.weights[name] > 0, (array.size,)).reshape(array.shape)
    return change, sent


class ServerOptimizer(RoundStrategy):
    """A first-order optimizer whose gradient is the negative mean change; its moments are stored with the state."""

    decoders = frozenset({SURVIVORS, SPATIAL})

    def __init__(self, *, server_lr: float, uniform: bool = False) -> None:
        super().__init__(uniform=uniform)
        self.server_lr = server_lr
        self.moments: dict[str, Float64] = {}

    def next_state(self, state: State, reports: MaskedSum, *, sends: Sends, round_number: int) -> State:
        """Return the state one optimizer step on; float parameters only, others are averaged."""
        after = {}
        for name, array in state.items():
            change, sent = change_of(name, reports, state, sends, self.decoder)
            if array.dtype.kind != "f":
                after[name] = np.asarray(array + change)
                continue
            step = self.server_lr * self.direction(name, change.astype(np.float64), sent)
            after[name] = np.where(sent, array + step, array).astype(array.dtype)
        return after

    @abstractmethod
    def direction(self, name: str, change: Float64, sent: Array) -> Float64:
        """Return the direction of the step, and move this parameter's moments where `sent`."""

    def move(self, key: str, value: Float64, *, decay: float, gain: float, sent: Array) -> Float64:
        """Set the moment to ``decay * moment + gain * value`` where `sent`; return it."""
        before = self.moments.get(key, np.zeros_like(value))
        self.moments[key] = np.where(sent, decay * before + gain * value, before)
        return self.moments[key]

    def memory(self) -> dict[str, Array]:
        """Return the moments."""
        return dict(self.moments)

    def remember(self, memory: Mapping[str, Array]) -> None:
        """Take the moments back."""
        self.moments = dict(memory)


class FedAvgM(ServerOptimizer):
    """Momentum on the server; Hsu et al. 2019 (arXiv:1909.06335), section 4.3: ``v = beta v + change``."""

    def __init__(self, *, server_lr: float = 1.0, momentum: float = 0.9, uniform: bool = False) -> None:
        super().__init__(server_lr=server_lr, uniform=uniform)
        self.momentum = momentum

    @classmethod
    def from_settings(cls, settings: StrategySettings) -> FedAvgM:
        """Return the strategy with its settings."""
        return cls(
            server_lr=settings.server_lr or 1.0,
            momentum=settings.server_momentum,
            uniform=settings.weighting == "uniform",
        )

    def direction(self, name: str, change: Float64, sent: Array) -> Float64:
        """Return the velocity."""
        return self.move(f"velocity/{name}", change, decay=self.momentum, gain=1.0, sent=sent)


class FedAdam(ServerOptimizer):
    """Adam on the server; Reddi et al. 2021 (arXiv:2003.00295), algorithm 2, without bias correction as printed."""

    def __init__(
        self,
        *,
        server_lr: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.99,
        tau: float = 1e-3,
        uniform: bool = False,
    ) -> None:
        super().__init__(server_lr=server_lr, uniform=uniform)
        self.beta1 = beta1
        self.beta2 = beta2
        self.tau = tau

    @classmethod
    def from_settings(cls, settings: StrategySettings) -> FedAdam:
        """Return the strategy with its settings."""
        return cls(
            server_lr=settings.server_lr or 0.01,
            beta1=settings.server_momentum,
            beta2=settings.beta2,
            tau=settings.tau,
            uniform=settings.weighting == "uniform",
        )

    def direction(self, name: str, change: Float64, sent: Array) -> Float64:
        """Return the first moment over the root of the second."""
        first = self.move(f"first/{name}", change, decay=self.beta1, gain=1 - self.beta1, sent=sent)
        second = self.move(f"second/{name}", change**2, decay=self.beta2, gain=1 - self.beta2, sent=sent)
        return first / (np.sqrt(second) + self.tau)
