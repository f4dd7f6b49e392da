"""Kernels: compiled loops for a convolution followed by max pooling, which torch computes slowly on a CPU."""

from fedlearn.kernels.fused import fused
from fedlearn.kernels.pooled_convolution import PooledConv2d, pooled_conv2d

__all__ = ["PooledConv2d", "fused", "pooled_conv2d"]
