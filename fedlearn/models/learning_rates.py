"""The learning rate of each round.

Sources: Li et al. 2020 (arXiv:1907.02189), theorem 1, for one that falls as one over the round; Loshchilov and Hutter
2017 (arXiv:1608.03983), eq. 5, for half a cosine.
"""

from __future__ import annotations

from math import cos, pi

from fedlearn.config.tables.learning_settings import TrainingSettings
from fedlearn.plugins import tables
from fedlearn.plugins.registry import Registry

LR_SCHEDULES = Registry("training.lr_schedule", tables.LR_SCHEDULES)
"""Functions (training, round_number, rounds) -> the learning rate of a round, from 1, of ``rounds.total``."""


def learning_rate(training: TrainingSettings, round_number: int, rounds: int) -> float:
    """Return the learning rate of a round, by all settings that change it: what a learner steps by and a result says.

    >>> learning_rate(TrainingSettings(lr=0.5, lr_decay=1.0), 2, 10)
    0.25
    """
    rate: float = LR_SCHEDULES.load(training.lr_schedule)(training, round_number, rounds)
    return rate


def inverse(training: TrainingSettings, round_number: int, rounds: int) -> float:
    """Return lr / (1 + lr_decay * (round - 1))."""
    return training.lr / (1 + training.lr_decay * (round_number - 1))


def constant(training: TrainingSettings, round_number: int, rounds: int) -> float:
    """Return lr."""
    return training.lr


def cosine(training: TrainingSettings, round_number: int, rounds: int) -> float:
    """Return half a cosine: lr in the first round, near 0 in the last.

    >>> [round(cosine(TrainingSettings(lr=1.0), r, 4), 2) for r in (1, 2, 3, 4)]
    [1.0, 0.85, 0.5, 0.15]
    """
    return training.lr * (1 + cos(pi * (round_number - 1) / rounds)) / 2
