"""ResNet-18 with group normalisation, for 32 x 32 images.

Source: He et al. 2016 (arXiv:1512.03385) as torchvision builds it; group norm in place of batch norm after Hsieh et
al. 2020 (arXiv:1910.00189), because batch statistics of skewed partitions do not average; 3x3 stem without pooling, as
usual for CIFAR-10.
"""

from __future__ import annotations

from torch import nn
from torchvision.models.resnet import BasicBlock, ResNet

GROUPS = 2  # as in Hsieh et al. 2020


def _group_norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(GROUPS, channels)


class ResNet18(ResNet):
    """Input (B, 3, 32, 32), output (B, 10); 11,173,962 parameters."""

    def __init__(self) -> None:
        super().__init__(BasicBlock, [2, 2, 2, 2], num_classes=10, norm_layer=_group_norm)
        self.conv1 = nn.Conv2d(3, 64, 3, stride=1, padding=1, bias=False)
        self.maxpool = nn.Identity()
