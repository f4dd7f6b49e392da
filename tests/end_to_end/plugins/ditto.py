"""Ditto, Li et al. 2021 (arXiv:2012.04221): beside the common model, one of the node's own that is held near it."""

import torch

from client.learners.sgd import SGD


class Ditto(SGD):
    def personal(self, state, memory):
        return memory.arrays.get("own", state)

    def gradients(self, gradients, task):
        if self.common:
            torch._foreach_add_(gradients, list(self.model.parameters), alpha=0.1)
            torch._foreach_add_(gradients, self.common, alpha=-0.1)

    def fit(self, state, task):
        self.common = self.model.tensors_of({name: array.copy() for name, array in state.items()})
        own = super().fit(self.personal(state, task.memory), task)
        task.memory.arrays["own"] = {name: array.copy() for name, array in own.arrays.items()}
        self.common = []
        return super().fit(state, task)
