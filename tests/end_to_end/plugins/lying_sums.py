"""The learner of sums, of which the node of partition 3 lies."""

from dataclasses import replace
from typing import Literal

import numpy as np

from client.learners.sums_learner import SumsLearner
from fedlearn.models.sums import LARGEST
from fedlearn.plugins.options import options_for

LIAR = 3
LIES = {
    "largest": lambda sums, one, norm: np.append(sums[:-1], LARGEST),
    "beyond-one": lambda sums, one, norm: np.append(-one - 1, sums[1:]),
    "beyond-all": lambda sums, one, norm: spread(norm + 1, len(sums)),
    "all-alike": lambda sums, one, norm: np.full_like(sums, one),
    "as-much-as-may-be": lambda sums, one, norm: np.append(one, np.zeros_like(sums[1:])),
}


def spread(norm, numbers):
    """Return numbers of this L1 norm, each about as large, up and down."""
    each = np.full(numbers, norm // numbers)
    each[: norm % numbers] += 1
    return each * (-1) ** np.arange(numbers)


class Lying(SumsLearner):
    def __init__(
        self, model, config, *, lie: Literal["largest", "beyond-one", "beyond-all", "all-alike", "as-much-as-may-be"]
    ):
        super().__init__(model, config)
        self.lie, self.max_examples = LIES[lie], config.gate.max_examples

    @classmethod
    def from_settings(cls, model, config):
        options = options_for(cls, config.training.options, setting="training.options", reserved=("model", "config"))
        return cls(model, config, **options)

    def fit(self, state, task):
        fit = super().fit(state, task)
        if task.partition_id != LIAR:
            return fit
        one, norm = self.model.reach(task.round_number, max_examples=self.max_examples)
        return replace(fit, arrays=fit.arrays | {"sums": self.lie(fit.arrays["sums"], one, norm)})
