"""FedIT: the factors A and B are averaged apart, and how far that is from the mean of the products is measured.

The product of the means, (sum p_i B_i) (sum p_i A_i), is not sum p_i B_i A_i where nodes differ: the column
``product_error`` says by how much in each round. It is what `FedAvg` makes of the same factors.

Source: Zhang et al. 2023, "Towards building the federated GPT: federated instruction tuning" (arXiv:2305.05644),
algorithm 1; Sun et al. 2024 (arXiv:2403.12313), section 3, for the error.
"""

from collections.abc import Sequence

import numpy as np

from fedlearn.algorithms.adapters.factors import Factored, Product


class FedIT(Factored):
    """Averages A and B apart."""

    laws = ("walk", "momentum")

    def combined(self, sent: Product, products: Sequence[tuple[float, Product]], round_number: int) -> Product:
        """Return the means of both factors."""
        weights = [weight for weight, _ in products]
        up, down = (np.tensordot(weights, [each[place] for _, each in products], 1) for place in (0, 1))
        return Product(up, down)
