"""Imported before workers are forked: they share the machine code that this process has loaded."""

from fedlearn.kernels import pooled_convolution

if pooled_convolution.has_vectors():
    pooled_convolution.loops()
