"""ResNet-18 with group normalisation, for small images.

Source: He et al. 2016 (arXiv:1512.03385) as torchvision builds it; group norm in place of batch norm after Hsieh et
al. 2020 (arXiv:1910.00189), because batch statistics of skewed partitions do not average; 3x3 stem without pooling, as
usual for CIFAR-10.
"""

from __future__ import annotations

from torch import nn
from torchvision.models.resnet import BasicBlock, ResNet

from fedlearn.data.data_spec import DataSpec
from fedlearn.models.model import image_shape
from fedlearn.models.networks.shapes import num_outputs

GROUPS = 2  # as in Hsieh et al. 2020


def _group_norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(GROUPS, channels)


class ResNet18(ResNet):
    """Input (B, C, H, W) float32, output (B, K) logits; 11,173,962 parameters for 3 channels and 10 classes.

    Parameters
    ----------
    spec : DataSpec
        Data set of images of any size.

    References
    ----------
    He et al. 2016, "Deep residual learning for image recognition" (arXiv:1512.03385).
    Hsieh et al. 2020, "The non-IID data quagmire of decentralized machine learning" (arXiv:1910.00189).

    Examples
    --------
    >>> from fedlearn.data.cifar10 import SPEC
    >>> sum(p.numel() for p in ResNet18(SPEC).parameters())
    11173962
    """

    answers_labels = True

    def __init__(self, spec: DataSpec) -> None:
        _, _, channels = image_shape(spec, smallest=1)
        super().__init__(BasicBlock, [2, 2, 2, 2], num_classes=num_outputs(spec), norm_layer=_group_norm)
        self.conv1 = nn.Conv2d(channels, 64, 3, stride=1, padding=1, bias=False)
        self.maxpool = nn.Identity()
