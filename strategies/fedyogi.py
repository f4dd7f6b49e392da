"""FedYogi: Yogi on the server, whose second moment moves by the sign of its distance from the squared change.

v -= (1 - beta2) change^2 sign(v - change^2); else as FedAdam: m = beta1 m + (1 - beta1) change, x += lr m/(sqrt(v) +
tau).

Source: Reddi et al. 2021, "Adaptive federated optimization" (arXiv:2003.00295), algorithm 2, with v = tau^2 at first.
"""

import numpy as np

from fedlearn.core.state import Array
from strategies.fedavg import FedAdam
from strategies.masked_mean import Float64


class FedYogi(FedAdam):
    """Steps on the mean change by Yogi; options as of `FedAdam`."""

    laws = ("walk", "unequal steps", "momentum")

    def direction(self, name: str, change: Float64, sent: Array) -> Float64:
        """Return the first moment over the root of the second."""
        first = self.move(f"first/{name}", change, decay=self.beta1, gain=1 - self.beta1, sent=sent)
        before = self.tau**2 + self.moments.get(f"second/{name}", np.zeros(change.shape))  # kept without tau^2
        way = -np.sign(before - change**2) * change**2
        second = self.tau**2 + self.move(f"second/{name}", way, decay=1.0, gain=1 - self.beta2, sent=sent)
        return first / (np.sqrt(second) + self.tau)
