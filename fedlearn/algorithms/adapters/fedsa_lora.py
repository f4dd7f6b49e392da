"""FedSA-LoRA: A is averaged; each node keeps a B of its own.

A node trains both together. B is ``training.personal``; a module's own names are given there.

Source: Guo et al. 2025, "Selective aggregation for low-rank adaptation in federated learning" (arXiv:2410.01463),
algorithm 1.
"""

from collections.abc import Mapping

from fedlearn.algorithms.adapters.factors import check_unsent
from fedlearn.core.adapters import UP
from fedlearn.extend import FedAvg, State


class FedSALoRA(FedAvg):
    """Averages as `FedAvg` does what nodes do not keep for themselves (``training.personal``)."""

    laws = ("walk", "momentum")

    def parcels(self, state: State) -> Mapping[str, State]:
        """Send none; raise SettingError where B is sent."""
        why = "'fedsa-lora' leaves B with the clients: name it by training.personal, or take another strategy.name"
        check_unsent(state, UP, "training.personal", why)
        return {}
