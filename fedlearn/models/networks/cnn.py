"""The 62,006-parameter CNN that federated-learning tutorials and benchmarks share.

Source: the CIFAR-10 tutorial of PyTorch, after LeNet-5 (LeCun et al. 1998).
Shapes: B batch, C channels, H height, W width, K classes.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from fedlearn.data.data_spec import DataSpec
from fedlearn.kernels import PooledConv2d
from fedlearn.models.model import image_shape
from fedlearn.models.networks.shapes import num_outputs

SMALLEST = 16  # pixels a side: of smaller images nothing is left after the second pooling


class CNN(nn.Module):
    """Two 5x5 convolutions and three linear layers.

    Input (B, C, H, W) float32, output (B, K) logits; 62,006 parameters for 3 x 32 x 32 and 10 classes.

    Parameters
    ----------
    spec : DataSpec
        Data set of images of at least 16 x 16 pixels.

    References
    ----------
    LeCun et al. 1998, "Gradient-based learning applied to document recognition", Proceedings of the IEEE 86.

    Examples
    --------
    >>> from fedlearn.data.cifar10 import SPEC
    >>> sum(p.numel() for p in CNN(SPEC).parameters())
    62006
    """

    answers_labels = True

    def __init__(self, spec: DataSpec) -> None:
        super().__init__()
        height, width, channels = image_shape(spec, smallest=SMALLEST)
        self.conv1 = PooledConv2d(channels, 6, 5, relu=True)
        self.conv2 = PooledConv2d(6, 16, 5, relu=True)
        self.fc1 = nn.Linear(16 * _after(height) * _after(width), 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, num_outputs(spec))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits; shapes in the comments are those of 32 x 32 pixels."""
        x = self.conv1(x)  # (B, 6, 14, 14)
        x = self.conv2(x).flatten(1)  # (B, 400)
        x = functional.relu(self.fc1(x))  # (B, 120)
        x = functional.relu(self.fc2(x))  # (B, 84)
        logits: Tensor = self.fc3(x)  # (B, K)
        return logits


def _after(pixels: int) -> int:
    """Return the side of an image after two 5x5 convolutions without padding, each with pooling by two."""
    return ((pixels - 4) // 2 - 4) // 2
