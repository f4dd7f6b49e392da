"""Local SGD whose loss is of changed logits, by how often the node has each class."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import torch
from torch import Tensor

from client.learners.base import LocalFit, LocalTask
from client.learners.sgd import SGD
from fedlearn.config import RunConfig
from fedlearn.models.torch_model import TorchModel
from fedlearn.words.errors import SettingError
from fedlearn.words.state import State


class OfLogits(SGD):
    """Takes steps on the loss of changed logits, each (B, K)."""

    @classmethod
    def from_settings(cls, model: TorchModel, config: RunConfig) -> Self:
        """Return the learner; raise SettingError for data without classes."""
        if not model.spec.classes:
            why = "it goes by the classes of a node's examples, and these data have none"
            raise SettingError("training.learner", config.training.learner, why)
        return super().from_settings(model, config)

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the fit on the changed loss."""
        targets = self.model.targets(task.train.targets[task.indices]).flatten()
        counts = torch.bincount(targets, minlength=self.model.spec.classes)
        self.changed_by = self.change_of(counts.to(self.model.device))
        return super().fit(state, task)

    def loss(self, inputs: Tensor, targets: Tensor, task: LocalTask) -> Tensor:
        """Return the loss of the changed logits."""
        return self.model.objective.loss(self.changed(self.model.outputs(inputs)), targets)

    @abstractmethod
    def change_of(self, counts: Tensor) -> Tensor:
        """Return what changes the logits, (K,), from the node's number of examples of each class."""

    @abstractmethod
    def changed(self, logits: Tensor) -> Tensor:
        """Return the logits as the loss sees them."""
