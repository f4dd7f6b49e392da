"""What torch computes slowly on a CPU, by compiled loops: a convolution with max pooling behind it."""

from fedlearn.kernels.fused import fused
from fedlearn.kernels.pooled_convolution import PooledConv2d, pooled_conv2d

__all__ = ["PooledConv2d", "fused", "pooled_conv2d"]
