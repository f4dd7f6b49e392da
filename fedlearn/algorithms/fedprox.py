"""FedProx: local steps with a pull towards the state that was sent.

A node takes steps on f_i(y) + mu/2 ||y - x||^2; the server averages as FedAvg does. The pull is
``training.proximal_mu``. With mu = 0 it is FedAvg.

Source: Li et al. 2020, "Federated optimization in heterogeneous networks" (arXiv:1812.06127), eq. 2 and algorithm 2.
"""

from fedlearn.extend import FedAvg


class FedProx(FedAvg):
    """Averages as `FedAvg` does, over nodes that are pulled towards the state (``training.proximal_mu``)."""

    laws = ("walk", "unequal steps", "momentum")
