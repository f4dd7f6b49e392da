"""Training of the server itself on examples that it trusts, for defences that compare nodes with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from client.isolated_fits import fits_of
from client.learners.learner import LocalTask
from fedlearn.config import from_flower
from fedlearn.core.seeding import rng_for
from fedlearn.core.state import State
from fedlearn.models.loaded import dataset_of


def fit_root(settings: Mapping[str, Any], state: State, round_number: int, count: int) -> State:
    """Return what the run's learner makes of a state on the server's root examples.

    The root examples are `count` of the server's training set, drawn by the run's seed, the same in every round. In a
    simulation one node or another has them, too; over a network they are of the server's own data folder.
    """
    config = from_flower(settings)
    train = dataset_of(config).train
    rows = rng_for(config.seed, purpose="root").permutation(len(train))[:count]
    fits = fits_of(config)
    task = LocalTask(train, np.sort(rows), config.seed, round_number, partition_id=config.clients, config={})
    fit = fits.fit(state, task)
    made = {name: array.copy() for name, array in fit.arrays.items()}
    fits.put_back()
    return made
