"""Rows of networks whose loops are compiled, or whose class is all capitals; this module imports no torch."""

from __future__ import annotations

from fedlearn.models.spec import torch_module

LOOPS = ("fedlearn.kernels.kernels_preload",)  # the compiled loops of `PooledConv2d`, loaded before workers are forked

MLP = torch_module("fedlearn.models.networks.mlp:MLP")
CNN = torch_module("fedlearn.models.networks.cnn:CNN", imports=LOOPS)
CNN_LARGE = torch_module("fedlearn.models.networks.cnn_large:CNNLarge", imports=LOOPS)
LSTM = torch_module("fedlearn.models.networks.lstm:LSTM")
