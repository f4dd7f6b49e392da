"""Local SGD whose loss is of changed logits, by how often the node has each class."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from fedlearn.extend import (
    SGD,
    Classification,
    LocalFit,
    LocalTask,
    RunConfig,
    SettingError,
    State,
    TorchModel,
    named_logits,
)


class OfLogits(SGD):
    """Takes steps on the loss of changed logits; each place of an example counts as an example."""

    @classmethod
    def from_settings(cls, model: TorchModel, config: RunConfig) -> Self:
        """Return the learner; raise SettingError where the loss is not one of the logits of classes."""
        if not isinstance(model.objective, Classification):
            why = "it goes by the classes of a client's examples, and these data have none"
            if model.spec.classes:
                why = "it changes the logits of classes, one each, and model.loss is of others"
            raise SettingError("training.learner", config.training.learner, why)
        return super().from_settings(model, config)

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the fit on the changed loss."""
        labels = self.model.targets(task.train.targets[task.indices]).flatten()
        known = labels[(labels >= 0) & (labels < self.model.spec.classes)]  # no other label counts in the loss
        self.counts = torch.bincount(known, minlength=self.model.spec.classes).to(self.model.device)
        return super().fit(state, task)

    def loss(self, inputs: Tensor, targets: Tensor, task: LocalTask) -> Tensor:
        """Return the loss of the changed logits."""
        objective = self.model.objective
        assert isinstance(objective, Classification)
        logits, labels = objective.flat(named_logits(self.model.outputs(inputs)), targets)
        counts = pad(self.counts, (0, logits.shape[1] - len(self.counts)))  # of more logits than classes
        return objective.loss(self.changed(logits, counts), labels)

    @abstractmethod
    def changed(self, logits: Tensor, counts: Tensor) -> Tensor:
        """Return the logits (n, K) as the loss sees them, from the node's number of examples of each class, (K,)."""
