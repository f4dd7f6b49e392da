"""Kernels: compiled loops for what torch computes slowly on a CPU, a convolution followed by max pooling."""

from fedlearn.kernels.fused import fused
from fedlearn.kernels.pooled_convolution import PooledConv2d, pooled_conv2d

__all__ = ["PooledConv2d", "fused", "pooled_conv2d"]
