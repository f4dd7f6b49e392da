"""A made data set like FEMNIST: 28 x 28 grey pixels, 62 classes, twelve writers; and a row for its model.

It imports no torch, so that the processes that only read the row need not wait for it.
"""

import numpy as np

from fedlearn.data.data_spec import Examples
from fedlearn.data.dataset import Dataset
from fedlearn.models import ModelSpec

WRITERS, CLASSES, EACH = 12, 62, 3
RANKED = ModelSpec("letters:ranked", dataset="writers:load", strategy="fedavgm", rounds="once")


def load(data_dir):
    return Dataset("writers", written(seed=1), written(seed=2), CLASSES, (0.5,), (0.29,), "writers-1")


def written(*, seed):
    rng = np.random.default_rng(seed)
    letters = np.random.default_rng(0).integers(0, 256, (CLASSES, 28, 28, 1))
    labels = np.tile(np.arange(CLASSES), WRITERS * EACH)
    groups = np.repeat(np.arange(WRITERS), CLASSES * EACH)
    noisy = letters[labels] + rng.integers(-40, 40, (len(labels), 28, 28, 1)) + groups[:, None, None, None]
    return Examples(np.clip(noisy, 0, 255).astype(np.uint8), labels, groups)
