"""Rows of our networks in the table of models; this module imports no torch."""

from __future__ import annotations

from fedlearn.models.spec import torch_module

LOOPS = ("fedlearn.kernels.preload",)  # the compiled loops of `PooledConv2d`, loaded before workers are forked

LINEAR = torch_module("fedlearn.models.networks.linear:Linear")
MLP = torch_module("fedlearn.models.networks.mlp:MLP")
CNN = torch_module("fedlearn.models.networks.cnn:CNN", imports=LOOPS)
CNN_LARGE = torch_module("fedlearn.models.networks.cnn_large:CNNLarge", imports=LOOPS)
RESNET18 = torch_module("fedlearn.models.networks.resnet18:ResNet18")
LSTM = torch_module("fedlearn.models.networks.lstm:LSTM")
TRANSFORMER = torch_module("fedlearn.models.networks.transformer:Transformer")
