"""Local SGD that changes some of the parameters only: the head of a model, or its body."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from torch import Tensor

from fedlearn.extend import SGD, LocalFit, LocalTask, State, Update


class InParts(SGD):
    """Trains named parameters; clipping, decay, pull and optimizer see these alone. Buffers move as always."""

    def fit_only(self, names: Collection[str], state: State, task: LocalTask, *, epochs: int) -> LocalFit:
        """Return the fit of some parameters, after `epochs` passes; its arrays are copies."""
        settings, self._only = self.training, [name in names for name in self.model.names]
        self.training = settings.model_copy(update={"local_epochs": epochs})
        try:
            fit = super().fit(state, task)
        finally:
            self.training = settings
        return replace(fit, arrays={name: array.copy() for name, array in fit.arrays.items()})

    def change_for(self, parameters: list[Tensor], task: LocalTask) -> Update:
        """Return the function that changes the parameters in question by their gradients."""
        change = super().change_for(self._of(parameters), task)
        return lambda gradients: change(self._of(gradients))

    def _of(self, tensors: list[Tensor]) -> list[Tensor]:
        return [tensor for tensor, is_trained in zip(tensors, self._only, strict=True) if is_trained]
