"""The preset is the published benchmark: its numbers, and the size of its model."""

from __future__ import annotations

from pathlib import Path

from experiments.speed.pfl_cnn import PflCNN
from fedlearn.config import config_from, flat_from_file
from fedlearn.data.cifar10 import SPEC
from fedlearn.models import load_model

PRESET = Path(__file__).parents[3] / "experiments" / "configs" / "pfl_cifar10.toml"


def test_preset_is_the_published_benchmark():
    config = config_from(flat_from_file(PRESET))
    model = load_model(config.model.name, SPEC)
    assert isinstance(model.module, PflCNN)
    assert sum(parameter.numel() for parameter in model.parameters) == 1_626_442
    assert 50_000 // config.clients == 50  # images of each node
    assert (config.rounds.total, config.rounds.cohort, config.training.batch_size) == (1500, 50, 10)
    assert (config.training.local_epochs, config.training.lr, config.training.momentum) == (1, 0.1, 0.0)
    assert config.training.lr_decay == 0.0
