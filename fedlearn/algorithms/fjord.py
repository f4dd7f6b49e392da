"""FjORD: ordered dropout; in each local step a client trains the first units of each hidden layer, as many as it draws.

A client whose largest ratio is p_max has the first ceil(p_max K) units of a layer of K units. For each batch it draws p
uniformly from the ratios up to p_max, and takes a step on the first ceil(p K) units alone (algorithm 1, without
distillation). The server averages each entry over the clients that have it. A norm has one set of running statistics,
not one for each width.

Source: Horvath et al. 2021, "FjORD: fair and accurate federated learning under heterogeneous targets with ordered
dropout" (arXiv:2102.13451).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from fedlearn.algorithms.heterofl import HeteroFL, HeteroFLSGD, SliceSGD
from fedlearn.extend import SGD, LocalTask, RunConfig, Slices, TorchModel, layout_of, rng_for


class Fjord(HeteroFL):
    """Averages each entry over the clients whose slice has it; the options are those of `HeteroFL`."""

    learner = "fjord"
    draws = True
    of_paper = ((1.0, 0.8, 0.6, 0.4, 0.2), False)  # uniform ratios, p_i = i / 5


class FjordSGD(HeteroFLSGD):
    """Trains the first units of the slice that the client was sent, as many as each step draws."""

    kept_between_fits: ClassVar[tuple[str, ...]] = (*HeteroFLSGD.kept_between_fits, "_inner")

    def __init__(self, model: TorchModel, config: RunConfig, **optimizer_options: Any) -> None:
        super().__init__(model, config, **optimizer_options)
        self._inner: dict[tuple[float, float], Inner] = {}

    def _learner(self, model: TorchModel, ratio: float) -> SGD:
        make: Any = OrderedDropout
        learner: SGD = make(model, self._config, self, ratio, **self._options)
        return learner

    def within(self, ratio: float, largest: float) -> Inner:
        """Return the slice of a ratio within that of a larger one."""
        if (ratio, largest) not in self._inner:
            arrays = {name: each.numpy(force=True) for name, each in self.model.module.state_dict().items()}
            slices = Slices(self._strategy.slicing.keep, self.sliced.axes, layout_of(arrays))
            numbers = {name: np.arange(array.size).reshape(array.shape) for name, array in arrays.items()}
            small, large = (slices.of(numbers, each, 1) for each in (ratio, largest))
            places = {
                name: torch.from_numpy(np.searchsorted(large[name].reshape(-1), small[name].reshape(-1)))
                for name in arrays
            }
            self._inner[ratio, largest] = Inner(self.at(ratio), self.at(largest), places)
        return self._inner[ratio, largest]


class OrderedDropout(SliceSGD):
    """Steps of one largest ratio.

    Parameters
    ----------
    whole
        The learner that has the modules of all ratios.
    largest
        p_max.
    """

    def __init__(
        self, model: TorchModel, config: RunConfig, whole: FjordSGD, largest: float, **optimizer_options: Any
    ) -> None:
        super().__init__(model, config, **whole._as_in_paper, **optimizer_options)
        self._whole, self._largest = whole, largest

    def step_for(self, task: LocalTask) -> Callable[[Tensor, Tensor], Tensor]:
        """Return a step on as many units as it draws."""
        parameters: list[Tensor] = list(self.model.parameters)
        change = self.change_for(parameters, task)
        ratios = [each for each in self._whole.levels if each <= self._largest]
        draws = rng_for(task.seed, purpose="fjord", round_number=task.round_number, node=task.partition_id)

        def step(inputs: Tensor, targets: Tensor) -> Tensor:
            ratio = ratios[draws.integers(len(ratios))]
            inner = None if ratio == self._largest else self._whole.within(ratio, self._largest)
            if inner is None:
                loss = self.loss(inputs, targets, task)
                gradients = list(torch.autograd.grad(loss, parameters, materialize_grads=True))
            else:
                inner.take()
                loss = inner.learner.loss(inputs, targets, task)
                inner_gradients = torch.autograd.grad(loss, inner.learner.model.parameters, materialize_grads=True)
                gradients = inner.widened(inner_gradients)
            change(gradients)
            return loss.detach()

        return step


class Inner:
    """The first units of a slice, as a smaller module.

    Parameters
    ----------
    learner, outer
        The learners of the smaller and of the larger ratio.
    places
        Array -> the positions of the entries of the smaller slice in the larger one.
    """

    def __init__(self, learner: SGD, outer: SGD, places: Mapping[str, Tensor]) -> None:
        self.learner = learner
        self._outer, self._places = outer.model, places
        small, large = learner.model.module.state_dict(), outer.model.module.state_dict()
        self._pairs = [(small[name], large[name].view(-1), where) for name, where in places.items()]
        trained = {*learner.model.names}
        self._running = [pair for name, pair in zip(places, self._pairs, strict=True) if name not in trained]

    def take(self) -> None:
        """Copy the entries of the larger slice."""
        for small, large, where in self._pairs:
            small.copy_(large[where].view_as(small))
        if self._outer.module.training:
            self.learner.model.train()
        else:
            self.learner.model.module.eval()  # a client with one example alone

    def widened(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """Return gradients of the larger slice, zero for its other units; give it the running statistics."""
        for small, large, where in self._running:
            large[where] = small.view(-1)
        wide = [torch.zeros_like(each) for each in self._outer.parameters]
        for name, each, gradient in zip(self._outer.names, wide, gradients, strict=True):
            each.view(-1)[self._places[name]] = gradient.reshape(-1)
        return wide
