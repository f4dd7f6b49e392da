"""A made text, fast to train on: each letter is the one before it, plus one, unless it is not."""

from __future__ import annotations

import numpy as np

from fedlearn.data.data_spec import Examples
from fedlearn.data.dataset import Dataset

LETTERS, LENGTH = 7, 6


def examples(number: int, *, seed: int = 0, each_place: bool = True) -> Examples:
    rng = np.random.default_rng(seed)
    steps = rng.choice([1, 1, 1, 2], (number, LENGTH + 1))
    letters = np.cumsum(steps, axis=1) % LETTERS
    targets = letters[:, 1:] if each_place else letters[:, -1]
    return Examples(letters[:, :-1].astype(np.int32), np.ascontiguousarray(targets).astype(np.int64))


def dataset(*, each_place: bool = True) -> Dataset:
    train, test = (examples(number, seed=seed, each_place=each_place) for seed, number in enumerate((60, 30)))
    return Dataset("letters", train, test, LETTERS, (), (), "letters", vocabulary=LETTERS)
