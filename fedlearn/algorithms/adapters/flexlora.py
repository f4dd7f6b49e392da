"""FlexLoRA: the mean of the products B A is factored again, by its largest singular values.

A node of rank r_i gets the first r_i columns of B and rows of A, which hold the largest singular values, and trains
them. What the module's rank cannot hold of the mean is lost; the column ``product_error`` says how much.

Source: Bai, Chen, Qian, Yao, Li 2024, "Federated fine-tuning of large language models under heterogeneous tasks and
client resources" (arXiv:2402.11505), section 3.2 and algorithm 1. HLoRA (arXiv:2503.00813) does the same.
"""

from collections.abc import Sequence

from fedlearn.algorithms.adapters.factors import Product, Rank, Ranked, mean_of
from fedlearn.core.adapters import DOWN, UP


class FlexLoRA(Ranked):
    """Averages the products of the nodes' factors.

    Parameters
    ----------
    ranks : list of int, default=[]
        Rank of each node's adapters: of node i the entry i modulo their number; empty: that of the module.
    down, up, uniform
        As in `Factored`.

    Examples
    --------
    >>> FlexLoRA(ranks=[2, 4, 8]).ranks
    (2, 4, 8)
    """

    laws = ("walk", "ranks", "momentum")
    learner = "low-rank"

    def __init__(self, *, ranks: Sequence[Rank] = (), down: str = DOWN, up: str = UP, uniform: bool = False) -> None:
        super().__init__(ranks=ranks, down=down, up=up, uniform=uniform)

    def combined(self, sent: Product, products: Sequence[tuple[float, Product]], round_number: int) -> Product:
        """Return the mean of the products, factored; a slot that it does not fill keeps its A, so that it can learn."""
        found = mean_of(products).refactored(len(sent.down))
        is_free = ~found.up.any(0)
        found.down[is_free] = sent.down[is_free]
        return found
