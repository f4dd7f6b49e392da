"""FedAdagrad: Adagrad on the server, whose second moment is the sum of all squared changes.

v += change^2, x += lr change / (sqrt(v) + tau), without momentum as in the experiments of the paper (beta1 = 0).

Source: Reddi et al. 2021, "Adaptive federated optimization" (arXiv:2003.00295), algorithm 2, with v = tau^2 at first.
"""

import numpy as np

from fedlearn.config.fields import Positive
from fedlearn.core.state import Array
from strategies.fedavg import ServerOptimizer
from strategies.masked_mean import Float64


class FedAdagrad(ServerOptimizer):
    """Steps on the mean change by Adagrad; ``server_lr`` and ``tau`` as of `FedAdam`."""

    laws = ("walk", "unequal steps", "momentum")

    def __init__(self, *, server_lr: Positive = 0.1, tau: Positive = 1e-3, uniform: bool = False) -> None:
        super().__init__(server_lr=server_lr, uniform=uniform)
        self.tau = tau

    def direction(self, name: str, change: Float64, sent: Array) -> Float64:
        """Return the change over the root of the second moment."""
        second = self.tau**2 + self.move(f"second/{name}", change**2, decay=1.0, gain=1.0, sent=sent)
        return change / (np.sqrt(second) + self.tau)
