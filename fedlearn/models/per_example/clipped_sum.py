"""The sum of gradients of single examples, each shortened to a largest L2 norm over all parameters together.

*Law*. Let g(x) be the gradient of the loss of the batch that holds example x alone. The sum is that of min(1, clip /
|g(x)|) g(x) over the taken examples; an example whose gradient has a number that is not finite adds nothing. So one
example more or less moves the sum by at most clip in the L2 norm, whatever the other examples are.

*Rounding*. Factors, products and sums are float64. g(x) itself is float32, and its last bits may depend on the place of
x in the batch, of whose shape there is one (`client.learners.dp_sgd` says where that matters).

Source: Abadi et al. 2016 (arXiv:1607.00133), algorithm 1.
Shapes: K places of a batch, P trained numbers of the model.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from fedlearn.models.torch.torch_model import TorchModel

SHORTER = 1 - 2.0**-40  # so that no rounding of float64 makes a clipped gradient longer than clip


class ClippedSum(Protocol):
    """A way to compute clipped sums for one model, with the parameters that the model holds at the time."""

    model: TorchModel
    places: int
    """The number of examples in one computation; every batch has this shape."""
    numbers: int
    """How many numbers of the gradient of each example are in memory at once."""

    def __call__(self, inputs: Tensor, targets: Tensor, taken: Tensor, *, clip: float) -> Tensor:
        """Return the clipped sum over the taken places of a batch, (P,) float64, parameters in the model's order.

        Parameters
        ----------
        inputs, targets : Tensor
            A batch of K places, as the model makes them.
        taken : Tensor
            Which places hold an example, (K,) booleans; what the others hold makes no difference.
        clip : float
            Largest L2 norm of the gradient of an example, above 0.
        """
        ...


def factors(squares: Tensor, taken: Tensor, *, clip: float) -> tuple[Tensor, Tensor]:
    """Return by what each gradient is multiplied, (K,) float64, and which gradients count at all, (K,) booleans.

    Parameters
    ----------
    squares : Tensor
        Squared L2 norms of the gradients, (K,) float64; NaN and infinity where a number is not finite.

    Examples
    --------
    >>> factors(torch.tensor([4.0, 0.25, torch.nan]), torch.tensor([True, True, True]), clip=1.0)[0]
    tensor([0.5000, 1.0000, 0.0000], dtype=torch.float64)
    """
    counted = taken & torch.isfinite(squares)
    norms = squares.double().sqrt()
    shortened = torch.clamp(clip * SHORTER / torch.where(norms > 0, norms, 1.0), max=1.0)
    return torch.where(counted, shortened, 0.0), counted


def losses_of(model: TorchModel, outputs: object, targets: Tensor) -> Tensor:
    """Return the loss of each example as if it were a batch alone, (K,)."""

    def alone(output: object, target: Tensor) -> Tensor:
        one = torch.utils._pytree.tree_map(lambda each: each[None], output)
        return model.objective.loss(one, target[None])

    found: Tensor = torch.func.vmap(alone)(outputs, targets)
    return found
