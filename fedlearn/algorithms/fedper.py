"""FedPer: the last layer of each node is its own; the others are averaged.

A node trains both together. The last layer is ``training.personal = "last"``; name more layers there if wanted.

Source: Arivazhagan et al. 2019, "Federated learning with personalization layers" (arXiv:1912.00818), algorithm 1.
"""

from fedlearn.extend import FedAvg


class FedPer(FedAvg):
    """Averages as `FedAvg` does what nodes do not keep for themselves (``training.personal``)."""

    laws = ("walk", "unequal steps")
