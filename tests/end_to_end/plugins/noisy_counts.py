"""A private learner from outside, for any model with a bias for each class: it learns only how frequent each class is.

A record more or less changes one count by 1, so geometric noise of the round's epsilon makes the counts private, and
the bias follows from them. It is careless in what it says beside: a loss, how many examples there are, what is wrong.
"""

import numpy as np

from client.learners.learner import Learner, LocalFit
from fedlearn.core.metric import EPSILON
from fedlearn.core.seeding import seed_for
from fedlearn.privacy import geometric, secure_noise, seeded_noise

ROUNDS = 2


class NoisyCounts(Learner):
    is_private = True

    def __init__(self, model, config):
        self.privacy = config.privacy

    @classmethod
    def from_settings(cls, model, config):
        return cls(model, config)

    def cost(self, budget, *, round_number=1):
        return budget / ROUNDS

    def fit(self, state, task):
        bias = list(state)[-1]
        targets = task.train.at(task.indices).targets
        if task.config.get("complain"):
            raise ValueError(f"the first class is {targets[0]}")
        epsilon = self.cost(self.privacy.epsilon)
        counts = geometric(np.bincount(targets, minlength=len(state[bias])), epsilon=epsilon, noise=self.noise(task))
        shares = np.log(np.maximum(counts, 1) / np.maximum(counts, 1).sum())
        metrics = {EPSILON.name: task.round_number * epsilon, "train_loss": float(len(targets))}
        return LocalFit({**state, bias: shares.astype(state[bias].dtype)}, len(targets), metrics)

    def noise(self, task):
        if self.privacy.noise != "seeded":
            return secure_noise()
        return seeded_noise(
            seed_for(task.seed, purpose="counts", round_number=task.round_number, node=task.partition_id)
        )


class Silent(NoisyCounts):
    """The same, which does not say that it is private."""

    is_private = False
