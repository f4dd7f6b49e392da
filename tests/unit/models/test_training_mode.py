"""A module that is to train does so in all of its parts, whatever was done with it before."""

import torch
from torch import nn

from fedlearn.models import load_model
from tests.oracles import images


class Frozen(nn.Sequential):
    """Never trains its normalisation, as networks that were trained before often do not."""

    def __init__(self):
        super().__init__(nn.Flatten(), nn.BatchNorm1d(3 * 32 * 32), nn.Dropout(), nn.Linear(3 * 32 * 32, 10))

    def train(self, mode=True):
        super().train(mode)
        self[1].eval()
        return self


def test_after_an_evaluation_and_with_a_part_that_stands_apart():
    data = images.dataset()
    model = load_model(f"{__name__}:Frozen", data.spec)
    for disturb in (
        lambda: model.evaluate(model.initial_state(seed=1), data.test),
        lambda: model.module[2].eval(),
        lambda: model.on(torch.device("cpu")),
    ):
        disturb()
        model.train()
        assert [part.training for part in model.module] == [True, False, True, True]
