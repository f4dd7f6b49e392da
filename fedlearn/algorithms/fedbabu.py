"""FedBABU: only the body is trained and averaged, under the head of round 1; each node then tunes a head of its own.

The head is ``training.personal = "last"``: in training it is what it was before round 1, the same on all nodes. After
each fit a node tunes it for ``head_epochs`` passes, from the first one, on the body as it was sent; nodes are measured
with it (``evaluation.nodes``).

Source: Oh, Kim, Yun 2022, "FedBABU: toward enhanced representation for federated image classification"
(arXiv:2106.06042), algorithm 1 and section 5.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from fedlearn.algorithms.in_parts import InParts
from fedlearn.extend import FedAvg, LocalFit, LocalTask, RunConfig, State, TorchModel


class FedBABU(FedAvg):
    """Averages as `FedAvg` does the bodies of the nodes' models (``training.personal`` is the head)."""

    laws = ("walk",)
    learner = "fedbabu"


class FedBABUSGD(InParts):
    """Trains the body under the first head, and tunes a head."""

    def __init__(
        self, model: TorchModel, config: RunConfig, *, head_epochs: Annotated[int, Field(ge=1)] = 1, **options: Any
    ) -> None:
        super().__init__(model, config, **options)
        self.head_epochs = head_epochs

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the fit of the body, with the tuned head, which is personal, among its arrays."""
        head, body = self.model.parts.personal, self.model.parts.shared
        sent = {**state, **{name: self.model.unsent[name] for name in head}}
        tuned = self.fit_only(head, sent, task, epochs=self.head_epochs)
        fit = self.fit_only(body, sent, task, epochs=self.training.local_epochs)
        return replace(fit, arrays={**fit.arrays, **{name: tuned.arrays[name] for name in head}})
