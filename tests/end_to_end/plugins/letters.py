"""A model for images of any size and any number of classes; and one that is judged by the rank of the true class."""

from functools import partial
from typing import Annotated

from pydantic import Field
from torch import nn

from fedlearn.core.metric import TRAIN_LOSS, Metric
from fedlearn.core.metrics import Metrics
from fedlearn.models.objectives import Objective
from fedlearn.models.torch.torch_model import TorchModel

RANK = Metric("mean_rank", "rank of the truth", better="down", headline=True, note="from 1")


class Letters(nn.Sequential):
    def __init__(self, spec, *, width: Annotated[int, Field(ge=1)] = 8):
        height, wide, channels = spec.shape
        pooled = channels * (height // 4) * (wide // 4)
        super().__init__(
            nn.AvgPool2d(4), nn.Flatten(), nn.Linear(pooled, width), nn.Tanh(), nn.Linear(width, spec.classes)
        )


def of_rgb():
    return nn.Sequential(nn.Conv2d(3, 4, 5), nn.Flatten(), nn.Linear(4 * 24 * 24, 62))


def of_few():
    return nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 10))


class Ranking(Objective):
    metrics = Metrics((TRAIN_LOSS,), (RANK,))

    def loss(self, outputs, targets):
        return nn.functional.multi_margin_loss(outputs, targets)

    def measure(self, outputs, targets):
        true = outputs.gather(1, targets[:, None])  # (B, 1)
        return {RANK.name: int((outputs >= true).sum())}


def ranked(spec, options):
    return TorchModel(partial(Letters, spec), spec, Ranking(spec))
