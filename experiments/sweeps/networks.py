"""Networks outside of the tables of fedlearn, which experiments name as ``module:Class``."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from fedlearn.data.data_spec import DataSpec
from fedlearn.models.model import image_shape


class GroupNormCNN(nn.Module):
    """Two 5x5 convolutions, each normalized in groups of channels, and one linear layer.

    Input (B, C, 32, 32) float32, output (B, K) logits; 7,882 parameters for 3 channels and 10 classes. It learns
    from changes that are a hundred commits old, where `cnn`, which has no norms, hardly does.

    Parameters
    ----------
    spec : DataSpec
        The data's spec; images must have 32 x 32 pixels.

    References
    ----------
    Hsieh et al. 2020, "The non-IID data quagmire of decentralized machine learning" (arXiv:1910.00189), section 5:
    norms over groups of channels, Wu and He 2018 (arXiv:1803.08494), where labels are skewed.
    """

    def __init__(self, spec: DataSpec) -> None:
        super().__init__()
        _, _, channels = image_shape(spec, smallest=32)
        self.conv1, self.norm1 = nn.Conv2d(channels, 8, 5), nn.GroupNorm(4, 8)
        self.conv2, self.norm2 = nn.Conv2d(8, 16, 5), nn.GroupNorm(4, 16)
        self.head = nn.Linear(16 * 5 * 5, spec.classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        x = functional.relu(functional.max_pool2d(self.norm1(self.conv1(x)), 2))  # (B, 8, 14, 14)
        x = functional.relu(functional.max_pool2d(self.norm2(self.conv2(x)), 2))  # (B, 16, 5, 5)
        logits: Tensor = self.head(x.flatten(1))  # (B, K)
        return logits
