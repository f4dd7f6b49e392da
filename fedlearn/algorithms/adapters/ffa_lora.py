"""FFA-LoRA: A stays as it was at first, the same on all nodes; B is trained and averaged.

So the mean of the products is the product of the means: sum p_i B_i A = (sum p_i B_i) A. Half of the numbers travel.
Noise and masks act on B only, in which the weights are linear.

A is left out by ``training.send``; a module's own names are given there.

Source: Sun, Li, Li, Ding 2024, "Improving LoRA in privacy-preserving federated learning" (arXiv:2403.12313), section 4.
"""

from collections.abc import Mapping

from fedlearn.algorithms.adapters.factors import check_unsent
from fedlearn.core.adapters import DOWN
from fedlearn.extend import FedAvg, State


class FFALoRA(FedAvg):
    """Averages as `FedAvg` does; nodes send no A (``training.send``)."""

    laws = ("walk", "momentum")

    def parcels(self, state: State) -> Mapping[str, State]:
        """Send none; raise SettingError where A is sent."""
        why = "'ffa-lora' leaves A as it is: leave it out of training.send, or take another strategy.name"
        check_unsent(state, DOWN, "training.send", why)
        return {}
