"""A multilayer perceptron: the 2NN of the FedAvg experiments.

Source: McMahan et al. 2017 (arXiv:1602.05629), section 3.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

from pydantic import Field
from torch import nn

from fedlearn.data.data_spec import DataSpec
from fedlearn.models.networks.shapes import flat_size, in_shape, num_outputs


class MLP(nn.Sequential):
    """Hidden layers of one width with relu between them.

    Parameters
    ----------
    spec : DataSpec
        Data set of images, rows of a table or series; not of texts.
    width : int, default=200
        Units of each hidden layer.
    layers : int, default=2
        Number of hidden layers.

    References
    ----------
    McMahan et al. 2017, "Communication-efficient learning of deep networks from decentralized data" (arXiv:1602.05629).
    It has 199,210 parameters on the 28 x 28 grey pixels of MNIST:

    Examples
    --------
    >>> mnist = DataSpec("mnist", (28, 28, 1), "uint8", classes=10)
    >>> sum(p.numel() for p in MLP(mnist).parameters())
    199210
    """

    answers_labels = True

    def __init__(
        self,
        spec: DataSpec,
        *,
        width: Annotated[int, Field(ge=1)] = 200,
        layers: Annotated[int, Field(ge=1)] = 2,
    ) -> None:
        sizes = [flat_size(spec), *[width] * layers]
        hidden: list[nn.Module] = []
        for before, after in pairwise(sizes):
            hidden += [nn.Linear(before, after), nn.ReLU()]
        super().__init__(nn.Flatten(), *hidden, nn.Linear(width, num_outputs(spec)), *in_shape(spec))
