"""FedRep: a node first trains its own head on the common body, then the body under its head; bodies are averaged.

The head is ``training.personal = "last"``. It is trained for ``head_epochs`` passes, with the body as it was sent; then
the body for ``training.local_epochs`` passes, with the head as it has become.

Source: Collins et al. 2021, "Exploiting shared representations for personalized federated learning" (arXiv:2102.07078),
algorithm 1; there the head takes 10 passes and the body 1 or 5.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from fedlearn.algorithms.in_parts import InParts
from fedlearn.extend import FedAvg, LocalFit, LocalTask, RunConfig, State, TorchModel


class FedRep(FedAvg):
    """Averages as `FedAvg` does the bodies of the nodes' models (``training.personal`` is the head)."""

    laws = ("walk",)
    learner = "fedrep"


class FedRepSGD(InParts):
    """Trains the head, then the body."""

    def __init__(
        self, model: TorchModel, config: RunConfig, *, head_epochs: Annotated[int, Field(ge=1)] = 5, **options: Any
    ) -> None:
        super().__init__(model, config, **options)
        self.head_epochs = head_epochs

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the fit of both, with the personal head among its arrays."""
        head, body = self.model.parts.personal, self.model.parts.shared
        first = self.fit_only(head, state, task, epochs=self.head_epochs)
        later = self.fit_only(body, {**state, **first.arrays}, task, epochs=self.training.local_epochs)
        return replace(later, arrays={**later.arrays, **{name: first.arrays[name] for name in head}})
