"""Local SGD whose loss is of changed logits, by how often the node has each class."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from fedlearn.extend import (
    SGD,
    Classification,
    LocalTask,
    RunConfig,
    SettingError,
    TorchModel,
    named_logits,
)


class OfLogits(SGD):
    """Takes steps on the loss of changed logits; each place of an example counts as an example."""

    _counted: tuple[LocalTask, Tensor] | None = None

    @classmethod
    def from_settings(cls, model: TorchModel, config: RunConfig) -> Self:
        """Return the learner; raise SettingError where the loss is not one of the logits of classes."""
        cls.check_classes(model, "training.learner", config.training.learner)
        return super().from_settings(model, config)

    @staticmethod
    def check_classes(model: TorchModel, setting: str, value: Any) -> None:
        """Raise SettingError where the loss is not one of the logits of classes."""
        if not isinstance(model.objective, Classification):
            why = "it goes by the classes of a client's examples, and these data have none"
            if model.spec.classes:
                why = "it changes the logits of classes, one each, and model.loss is of others"
            raise SettingError(setting, value, why)

    def loss(self, inputs: Tensor, targets: Tensor, task: LocalTask) -> Tensor:
        """Return the loss of the changed logits."""
        objective = self.model.objective
        assert isinstance(objective, Classification)
        logits, labels = objective.flat(named_logits(self.model.outputs(inputs)), targets)
        counts = self._counts_of(task)
        counts = pad(counts, (0, logits.shape[1] - len(counts)))  # of more logits than classes
        return objective.loss(self.changed(logits, counts), labels)

    def _counts_of(self, task: LocalTask) -> Tensor:
        if self._counted is None or self._counted[0] is not task:
            labels = self.model.targets(task.train.targets[task.indices]).flatten()
            known = labels[(labels >= 0) & (labels < self.model.spec.classes)]  # no other label counts in the loss
            self._counted = task, torch.bincount(known, minlength=self.model.spec.classes).to(self.model.device)
        return self._counted[1]

    @abstractmethod
    def changed(self, logits: Tensor, counts: Tensor) -> Tensor:
        """Return the logits (n, K) as the loss sees them, from the node's number of examples of each class, (K,)."""
