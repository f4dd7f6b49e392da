"""A node's noisy sums: what the model asks for, of the node's own examples.

The node's ledger has booked what the round costs (`client.ledger`). What is asked follows from the state, what may be
spent on it from the round's number alone: noise is always that of the epsilon that was booked, whatever the server says
the state is.
"""

from __future__ import annotations

import numpy as np

from client.learners.base import Learner, LocalFit, LocalTask
from fedlearn.config import RunConfig
from fedlearn.plugging.options import options_for
from fedlearn.privacy import geometric, largest_loss, polya_share, secure_noise, seeded_noise
from fedlearn.private_trees.federated.models.sums import LARGEST, SumsModel
from fedlearn.words.metric import EPSILON
from fedlearn.words.seeding import seed_for
from fedlearn.words.state import Array, State


class SumsLearner(Learner):
    """Counts what the model asks for, and adds noise.

    Parameters
    ----------
    model
        Knows what is asked in which round, and what it may cost.
    config
        Budget, noise and trust.
    """

    is_private = True

    def __init__(self, model: SumsModel, config: RunConfig) -> None:
        self.model = model.planned(config)
        self.privacy = config.privacy

    @classmethod
    def from_settings(cls, model: SumsModel, config: RunConfig) -> SumsLearner:
        """Return the learner of a run."""
        options_for(cls, config.training.options, setting="training.options", reserved=("model", "config"))
        return cls(model, config)

    def cost(self, budget: float, *, round_number: int = 1) -> float:
        """Return what the plan gives to this round."""
        return self.model.plan.share(round_number) * budget

    def check(self, state: State) -> None:
        """Refuse a state that is not made of sums of as many reports as its noise needs."""
        self.model.check_state(state)

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the node's sums with noise; they say what the plan has spent up to this round."""
        self.check(state)
        examples = task.train.at(task.indices)
        sums = self._noisy(self.model.asked(state, examples), self.model.sensitivity(state), task)
        spent = sum(self.cost(self.privacy.epsilon, round_number=each + 1) for each in range(task.round_number))
        loss = largest_loss(min(spent, self.privacy.epsilon), self.privacy)
        arrays = {"sums": sums, "reports": np.ones(1, np.int64)}
        return LocalFit(arrays, len(examples) if self.privacy.public_sizes else 1, {EPSILON.name: loss.epsilon})

    def _noisy(self, sums: Array, sensitivity: int, task: LocalTask) -> Array:
        """Return the sums with noise, clipped to what the gate takes: more is no number of records."""
        epsilon = self.cost(self.privacy.epsilon, round_number=task.round_number)
        if self.privacy.noise == "seeded":
            noise = seeded_noise(
                seed_for(task.seed, purpose="sums", round_number=task.round_number, node=task.partition_id)
            )
        else:
            noise = secure_noise()
        if self.model.plan.shares == 1:
            noisy = geometric(sums, sensitivity=sensitivity, epsilon=epsilon, noise=noise)
        else:
            noisy = polya_share(
                sums, sensitivity=sensitivity, epsilon=epsilon, shares=self.model.plan.shares, noise=noise
            )
        return np.asarray(np.clip(noisy, -LARGEST, LARGEST))
