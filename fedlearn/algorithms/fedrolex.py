"""FedRolex: a client with a small device trains a window of units of each hidden layer, which rolls on in each round.

In round j a client with ratio b has the units j mod K, ..., j mod K + floor(b K) - 1 of a layer of K units, the first
ones again behind the last (equation 2), so that all entries are trained in turn. The server averages each entry over
the clients that have it.

The authors' code rounds b K up, rolls the other way, and divides as HeteroFL's Scaler does (``scaler = true``).

Source: Alam et al. 2022, "FedRolex: model-heterogeneous federated learning with rolling sub-model extraction"
(arXiv:2212.01548), algorithm 1.
"""

from __future__ import annotations

from typing import ClassVar

from fedlearn.algorithms.heterofl import HeteroFL
from fedlearn.extend import KeepUnits, rolling_units


class FedRolex(HeteroFL):
    """Averages each entry over the clients whose slice of the round has it; the options are those of `HeteroFL`."""

    learner = "fedrolex"
    keep: ClassVar[KeepUnits] = staticmethod(rolling_units)
    of_paper = (HeteroFL.of_paper[0], False)
