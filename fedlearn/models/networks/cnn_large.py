"""The larger CNN of the FedAvg experiments: 2,156,490 parameters on CIFAR-10.

Source: the MNIST CNN of McMahan et al. 2017 (arXiv:1602.05629), section 3.
Shapes: B batch, C channels, H height, W width, K classes.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from fedlearn.data.data_spec import DataSpec
from fedlearn.kernels import PooledConv2d
from fedlearn.models.model import image_shape
from fedlearn.models.networks.shapes import num_outputs

SMALLEST = 4  # pixels a side, which are halved twice


class CNNLarge(nn.Module):
    """Two padded 5x5 convolutions and two linear layers.

    Input (B, C, H, W) float32, output (B, K) logits; 2,156,490 parameters for 3 x 32 x 32 and 10 classes.

    Parameters
    ----------
    spec : DataSpec
        Data set of images of at least 4 x 4 pixels.

    References
    ----------
    McMahan et al. 2017, "Communication-efficient learning of deep networks from decentralized data" (arXiv:1602.05629).
    It has 1,663,370 parameters on the 28 x 28 grey pixels of MNIST:

    Examples
    --------
    >>> from fedlearn.data.data_spec import DataSpec
    >>> mnist = DataSpec("mnist", (28, 28, 1), "uint8", classes=10)
    >>> sum(p.numel() for p in CNNLarge(mnist).parameters())
    1663370
    """

    answers_labels = True

    def __init__(self, spec: DataSpec) -> None:
        super().__init__()
        height, width, channels = image_shape(spec, smallest=SMALLEST)
        self.conv1 = PooledConv2d(channels, 32, 5, padding=2, relu=True)
        self.conv2 = PooledConv2d(32, 64, 5, padding=2, relu=True)
        self.fc1 = nn.Linear(64 * (height // 4) * (width // 4), 512)
        self.fc2 = nn.Linear(512, num_outputs(spec))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits; shapes in the comments are those of 32 x 32 pixels."""
        x = self.conv1(x)  # (B, 32, 16, 16)
        x = self.conv2(x).flatten(1)  # (B, 4096)
        x = functional.relu(self.fc1(x))  # (B, 512)
        logits: Tensor = self.fc2(x)  # (B, K)
        return logits
