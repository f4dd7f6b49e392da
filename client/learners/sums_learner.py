"""Learner of noisy sums: counts the node's own examples as the model asks, and adds noise.

The node's ledger has booked the cost of the round before (`client.node_ledger`). Which sums are asked follows from the
state; the epsilon spent on them follows from the round's number alone. So the noise is always that of the booked
epsilon, whatever state the server sends.
"""

from __future__ import annotations

import numpy as np

from client.learners.learner import Learner, LocalFit, LocalTask
from fedlearn.config import RunConfig
from fedlearn.core.metric import EPSILON
from fedlearn.core.seeding import seed_for
from fedlearn.core.state import Array, State
from fedlearn.models.sums import LARGEST, SumsModel
from fedlearn.plugins.options import options_for
from fedlearn.privacy import geometric, largest_loss, polya_share, secure_noise, seeded_noise


class SumsLearner(Learner):
    """Learner that reports the sums that the model asks for, with noise.

    Parameters
    ----------
    model
        Says which sums each round asks for, and which share of epsilon it spends.
    config
        Settings with the budget, the kind of noise, and trust.
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
        """Return the epsilon of this round: its share of the budget, as the plan says."""
        return self.model.plan.share(round_number) * budget

    def check(self, state: State) -> None:
        """Raise `Refused` for a state whose sums have fewer reports than their noise needs, or another layout."""
        self.model.check_state(state)

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the node's sums with noise, and as metric the epsilon that the plan has spent up to this round."""
        self.check(state)
        examples = task.train.at(task.indices)
        sums = self._noisy(self.model.asked(state, examples), self.model.sensitivity(state), task)
        spent = sum(self.cost(self.privacy.epsilon, round_number=each + 1) for each in range(task.round_number))
        loss = largest_loss(min(spent, self.privacy.epsilon), self.privacy)
        arrays = {"sums": sums, "reports": np.ones(1, np.int64)}
        return LocalFit(arrays, len(examples) if self.privacy.public_sizes else 1, {EPSILON.name: loss.epsilon})

    def _noisy(self, sums: Array, sensitivity: int, task: LocalTask) -> Array:
        """Return the sums with noise, clipped to `LARGEST`, beyond which the gate refuses them."""
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


class ExactSumsLearner(SumsLearner):
    """Learner that reports the sums that the model asks for as they are: for secure sums, which hide them."""

    is_private = False

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the node's sums; nothing is measured, and no number of examples is said."""
        self.check(state)
        sums = self.model.asked(state, task.train.at(task.indices))
        return LocalFit({"sums": sums, "reports": np.ones(1, np.int64)}, 1, {})
