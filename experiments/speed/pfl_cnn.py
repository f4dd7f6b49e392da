"""The model of the published CIFAR-10 benchmark of pfl-research: 1,626,442 parameters.

``experiments/configs/pfl_cifar10.toml`` names it, and has the other settings of that benchmark.

Source: Granqvist et al. 2024, "pfl-research: simulation framework for accelerating research in private federated
learning" (arXiv:2404.06430), section 4; the layers are those of its repository, `benchmarks/model/pytorch/cnn.py`.
Shapes: B batch, C channels, H height, W width, K classes.
"""

from __future__ import annotations

from torch import nn

from fedlearn.data.data_spec import DataSpec
from fedlearn.kernels import PooledConv2d
from fedlearn.models.model import image_shape

SMALLEST = 6  # pixels: two convolutions take four, and the pooling halves the rest
HIDDEN = 128


class PflCNN(nn.Sequential):
    """Two 3x3 convolutions, pooling, and two linear layers, with dropout before each linear layer.

    Input (B, C, H, W) float32, output (B, K) logits. Weights begin as in Glorot and Bengio 2010. The second relu stands
    behind the pooling, where its result is the same.

    Examples
    --------
    >>> from fedlearn.data.cifar10 import SPEC
    >>> sum(p.numel() for p in PflCNN(SPEC).parameters())
    1626442
    """

    def __init__(self, spec: DataSpec) -> None:
        height, width, channels = image_shape(spec, smallest=SMALLEST)
        flat = 64 * ((height - 4) // 2) * ((width - 4) // 2)
        super().__init__(
            nn.Conv2d(channels, 32, 3), nn.ReLU(), PooledConv2d(32, 64, 3, relu=True), nn.Dropout(0.25),
            nn.Flatten(), nn.Linear(flat, HIDDEN), nn.ReLU(), nn.Dropout(0.5), nn.Linear(HIDDEN, spec.classes),
        )  # fmt: skip
        for layer in self:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
