"""LG-FedAvg: the last layer is averaged; what comes before it, the representation, is each node's own.

It is ``training.personal = "!last"``: all but the last layer. No pretraining by FedAvg precedes it: begin with a run's
model for that (``--from``).

Source: Liang et al. 2020, "Think locally, act globally" (arXiv:2001.01523), algorithm 1.
"""

from fedlearn.extend import FedAvg


class LGFedAvg(FedAvg):
    """Averages as `FedAvg` does the last layer alone (``training.personal``)."""

    laws = ("walk", "unequal steps")
