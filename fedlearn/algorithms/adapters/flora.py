"""FLoRA: nodes train fresh factors; the server stacks them, and adds their exact mean to what was learned before.

The module's adapters of rank R have two parts. The first R - r slots hold all that was learned so far, and are still in
a fit. The last r slots begin each round with B = 0, and a node trains them, or the first r_i of them. The mean of the
products is exact: [B, p_1 B_1, ..., p_n B_n] [A; A_1; ...; A_n]. The paper merges it into the frozen weight; here it
fills the first R - r slots, by its singular values, so that it remains an adapter. It stays exact while these slots
hold its rank, as they always do if R - r is min(in, out); the column ``product_error`` says what was lost.

Source: Wang et al. 2024, "FLoRA: federated fine-tuning large language models with heterogeneous low-rank adaptations"
(arXiv:2409.05976), eq. 6 and algorithm 1.
"""

from collections.abc import Sequence

import numpy as np

from fedlearn.algorithms.adapters.factors import Product, Rank, Ranked, mean_of
from fedlearn.core.adapters import DOWN, UP
from fedlearn.extend import Float64


class FLoRA(Ranked):
    """Adds the mean of the products of fresh factors to what was learned before.

    Parameters
    ----------
    ranks : list of int, default=[4]
        Rank r_i of the factors that a node trains: of node i the entry i modulo their number; r is the largest.
    down, up, uniform
        As in `Factored`.

    Examples
    --------
    >>> FLoRA(ranks=[2, 8]).most(64)
    63
    """

    laws = ("walk", "ranks", "momentum")
    learner = "flora"

    def __init__(self, *, ranks: Sequence[Rank] = (4,), down: str = DOWN, up: str = UP, uniform: bool = False) -> None:
        super().__init__(ranks=ranks, down=down, up=up, uniform=uniform)

    def most(self, rank: int) -> int:
        """Return the largest rank that leaves a slot for what was learned."""
        return rank - 1

    def combined(self, sent: Product, products: Sequence[tuple[float, Product]], round_number: int) -> Product:
        """Return the mean in the first slots, and fresh factors in the last."""
        held = len(sent.down) - max(self.ranks)
        mean = mean_of(products).refactored(held)
        fresh = fresh_rows(sent.down[held:], round_number)
        up = np.hstack([mean.up, np.zeros((len(mean.up), len(fresh)))])
        return Product(up, np.vstack([mean.down, fresh]))


def fresh_rows(rows: Float64, round_number: int) -> Float64:
    """Return rows of A with the same numbers in another order, which the round draws: as random as the first ones."""
    return np.random.default_rng(round_number).permutation(rows.ravel()).reshape(rows.shape)
