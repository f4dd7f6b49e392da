"""FedAvg over the entries that were sent, and server optimizers on the mean change.

An entry that no node sent keeps its value, and a server optimizer's moments for it stay as they are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal

import numpy as np
from pydantic import Field

from fedlearn.config.fields import Positive
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.errors import SettingError
from fedlearn.core.state import Array, Sends, UpdateKind, changed_by, difference, takes_steps
from strategies.base import RoundStrategy, Step, Turn
from strategies.masked_mean import Float64, MaskedSum
from strategies.spatial import spatial_factor

SURVIVORS: Final = "survivors"
SPATIAL: Final = "spatial"
Decoder = Literal["survivors", "spatial"]
Decay = Annotated[float, Field(ge=0, lt=1)]


class FedAvg(RoundStrategy[MaskedSum]):
    """The mean over the nodes that sent the entry.

    Parameters
    ----------
    decoder : {"survivors", "spatial"}, default="survivors"
        What the sum of an entry is divided by that only some nodes sent: by their weight, or as `strategies.spatial`
        says, for changes of randomly dropped entries.
    uniform : bool, default=False
        Every node weighs one; else its number of examples.

    References
    ----------
    McMahan et al. 2017, "Communication-efficient learning of deep networks from decentralized data" (arXiv:1602.05629),
    algorithm 1.

    Examples
    --------
    >>> FedAvg(decoder="spatial").decoder
    'spatial'
    """

    takes_stale = True
    laws: ClassVar[tuple[str, ...]] = ("walk", "unequal steps", "momentum", "one node", "nodes alike")

    def __init__(self, *, decoder: Decoder = SURVIVORS, uniform: bool = False) -> None:
        super().__init__(uniform=uniform)
        self.decoder = decoder

    def check_sent(self, sent: UpdateKind, compression: CompressionSettings) -> None:
        """Refuse the spatial decoder for anything but changes of single entries."""
        check_decoder(self.decoder, sent, compression)

    def next_state(self, turn: Turn[MaskedSum]) -> Step:
        """Return the mean, or the old state plus the mean change."""
        if turn.sends is Sends.WEIGHTS:
            return Step(turn.total.mean(otherwise=turn.state))
        after = {}
        for name, array in turn.state.items():
            change, sent = change_of(name, turn, self.decoder)
            after[name] = np.where(sent, changed_by(array, change), array)  # -0.0 + 0.0 would not be the old value
        return Step(after)


def change_of(name: str, turn: Turn[MaskedSum], decoder: Decoder) -> tuple[Array, Array]:
    """Return the mean change of one parameter, zero where no node sent an entry, and the mask of sent entries.

    Both have the parameter's shape; the change has its dtype.

    >>> from fedlearn.core.state import Entries, layout_of
    >>> state = {"w": np.zeros(3)}
    >>> total = MaskedSum.empty(layout_of(state))
    >>> total.add([(2.0, {"w": Entries(np.array([3.0]), np.array([1]))})])
    >>> change_of("w", Turn(state, total, Sends.UPDATE), SURVIVORS)
    (array([0., 3., 0.]), array([False,  True, False]))
    """
    array, reports, sends = turn.state[name], turn.total, turn.sends
    if name not in reports.totals:
        return np.zeros_like(array), np.zeros(array.shape, bool)
    otherwise = array if sends is Sends.WEIGHTS else np.zeros_like(array)
    mean = reports.mean(otherwise={name: otherwise})[name]
    if decoder == SPATIAL and array.dtype.kind == "f":
        factor = np.broadcast_to(spatial_factor(name, reports), (array.size,))
        mean = (mean * factor.reshape(array.shape)).astype(array.dtype)
    change = difference(mean, array) if sends is Sends.WEIGHTS else mean
    sent = np.broadcast_to(reports.weights[name] > 0, (array.size,)).reshape(array.shape)
    return change, sent


def check_decoder(decoder: Decoder, sent: UpdateKind, compression: CompressionSettings) -> None:
    """Raise SettingError where there are no single entries of a change to divide."""
    is_entry = compression.granularity == "entry" and compression.send == "update"
    if decoder == SPATIAL and not (sent is UpdateKind.MASKED and is_entry):
        raise SettingError(
            "strategy.options.decoder", decoder,
            "it divides single entries of the change by those who sent them: use compression.codec = 'drop', "
            "compression.send = 'update', compression.granularity = 'entry'",
        )  # fmt: skip


class ServerOptimizer(RoundStrategy[MaskedSum]):
    """A first-order optimizer whose gradient is the negative mean change; its moments are stored with the state.

    Parameters
    ----------
    server_lr : float
        Step on the direction, above 0.
    decoder, uniform
        As in `FedAvg`.

    Examples
    --------
    >>> class Plain(ServerOptimizer):
    ...     def direction(self, name, change, sent):
    ...         return change
    >>> Plain(server_lr=0.5).server_lr
    0.5
    """

    takes_stale = True

    def __init__(self, *, server_lr: float, decoder: Decoder = SURVIVORS, uniform: bool = False) -> None:
        super().__init__(uniform=uniform)
        self.server_lr = server_lr
        self.decoder = decoder
        self.moments: dict[str, Float64] = {}

    def next_state(self, turn: Turn[MaskedSum]) -> Step:
        """Return the state one optimizer step on; whole numbers and running statistics are averaged."""
        after = {}
        for name, array in turn.state.items():
            change, sent = change_of(name, turn, self.decoder)
            if not takes_steps(name, array):
                after[name] = np.where(sent, changed_by(array, change), array)
                continue
            step = self.server_lr * self.direction(name, change.astype(np.float64), sent)
            after[name] = np.where(sent, array + step, array).astype(array.dtype)
        return Step(after)

    def check_sent(self, sent: UpdateKind, compression: CompressionSettings) -> None:
        """Refuse the spatial decoder for anything but changes of single entries."""
        check_decoder(self.decoder, sent, compression)

    @abstractmethod
    def direction(self, name: str, change: Float64, sent: Array) -> Float64:
        """Return the direction of the step, and move this parameter's moments where `sent`."""

    def move(self, key: str, value: Float64, *, decay: float, gain: float, sent: Array) -> Float64:
        """Set the moment to ``decay * moment + gain * value`` where `sent`; return the moment."""
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
    """Momentum on the server: ``v = momentum v + change``, and a step of ``server_lr v``.

    Parameters
    ----------
    server_lr : float, default=1.0
        Step on the velocity, above 0.
    momentum : float, default=0.9
        Share of the velocity that is left after a round, in [0, 1).
    decoder, uniform
        As in `FedAvg`.

    References
    ----------
    Hsu et al. 2019, "Measuring the effects of non-identical data distribution for federated visual classification"
    (arXiv:1909.06335), section 4.3.

    Examples
    --------
    >>> FedAvgM(momentum=0.5).server_lr
    1.0
    """

    laws = ("walk", "unequal steps", "momentum")

    def __init__(
        self,
        *,
        server_lr: Positive = 1.0,
        momentum: Decay = 0.9,
        decoder: Decoder = SURVIVORS,
        uniform: bool = False,
    ) -> None:
        super().__init__(server_lr=server_lr, decoder=decoder, uniform=uniform)
        self.momentum = momentum

    def direction(self, name: str, change: Float64, sent: Array) -> Float64:
        """Return the velocity."""
        return self.move(f"velocity/{name}", change, decay=self.momentum, gain=1.0, sent=sent)


class FedAdam(ServerOptimizer):
    """Adam on the server, without bias correction, as printed.

    Parameters
    ----------
    server_lr : float, default=0.01
        Step on the direction, above 0.
    beta1, beta2 : float, default=0.9, 0.99
        Share of the first and second moment that is left after a round, in [0, 1).
    tau : float, default=0.001
        Degree of adaptivity: added to the root of the second moment, above 0.
    decoder, uniform
        As in `FedAvg`.

    References
    ----------
    Reddi et al. 2021, "Adaptive federated optimization" (arXiv:2003.00295), algorithm 2.

    Examples
    --------
    >>> FedAdam(beta2=0.9).tau
    0.001
    """

    laws = ("walk", "unequal steps", "momentum")

    def __init__(
        self,
        *,
        server_lr: Positive = 0.01,
        beta1: Decay = 0.9,
        beta2: Decay = 0.99,
        tau: Positive = 1e-3,
        decoder: Decoder = SURVIVORS,
        uniform: bool = False,
    ) -> None:
        super().__init__(server_lr=server_lr, decoder=decoder, uniform=uniform)
        self.beta1 = beta1
        self.beta2 = beta2
        self.tau = tau

    def direction(self, name: str, change: Float64, sent: Array) -> Float64:
        """Return the first moment over the root of the second."""
        first = self.move(f"first/{name}", change, decay=self.beta1, gain=1 - self.beta1, sent=sent)
        second = self.move(f"second/{name}", change**2, decay=self.beta2, gain=1 - self.beta2, sent=sent)
        return first / (np.sqrt(second) + self.tau)
