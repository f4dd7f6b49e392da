"""Local training by the hooks of a LightningModule: its ``training_step``, and the optimizer that it configures.

Batches, passes, seeds, clipping and FedProx's pull are those of `SGD`. The optimizer begins anew in every round; a
scheduler of learning rates begins where the passes, or steps, of the earlier rounds have brought it.

Any torch module with a ``training_step`` will do; Lightning is not imported.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from client.learners.learner import LocalFit, LocalTask
from client.learners.optimizers import COMPUTES_AGAIN, Update, computes_again
from client.learners.sgd import SGD
from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError, said
from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples
from fedlearn.models.torch.hooks import OPTIMIZERS, STEP, hook_of
from fedlearn.models.torch.torch_model import TorchModel
from fedlearn.plugins.registry import call_plugin

NO_TRAINER = "You are trying to `self.log"  # what Lightning warns of: no trainer keeps what a module logs


class Configured(NamedTuple):
    """What ``configure_optimizers`` has returned: an optimizer, and when the scheduler of its rate takes a step.

    Parameters
    ----------
    scheduler
        The scheduler; None without one.
    by_step
        Whether the scheduler counts steps; else it counts passes.
    every
        Steps or passes from one step of the scheduler to the next.
    """

    optimizer: torch.optim.Optimizer
    scheduler: Any = None
    by_step: bool = False
    every: int = 1


class Lightning(SGD):
    """Trains a module by its own ``training_step`` and ``configure_optimizers``; without the latter, as `SGD` does.

    Raises
    ------
    SettingError
        For a module without ``training_step``, and for what the hooks of one cannot say here: manual optimization,
        several optimizers, a scheduler that waits for a metric, another precision than float32.
    """

    def __init__(self, model: TorchModel, config: RunConfig, **optimizer_options: Any) -> None:
        super().__init__(model, config, **optimizer_options)
        self._name = type(model.module).__name__
        self._step = hook_of(model.module, STEP)
        if self._step is None:
            raise self._refused(f"it has no {STEP}: take training.learner = 'sgd'")
        if getattr(model.module, "automatic_optimization", True) is False:
            raise self._refused("it optimizes manually (automatic_optimization = False): write a training.learner")
        if config.training.precision != "float32":
            raise SettingError(
                "training.precision", config.training.precision, f"{STEP} of {self._name} computes in float32: use that"
            )
        self._takes_number = _positional(self._step) > 1
        self._configure = hook_of(model.module, OPTIMIZERS)
        if self._configure and call_plugin("model.name", f"{self._name}.{OPTIMIZERS}", self._configured) is None:
            self._configure = None

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the state after the module's own steps on the node's examples."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=NO_TRAINER)
            return super().fit(state, task)

    def try_on(self, examples: Examples) -> None:
        """Raise SettingError where a step on two examples fails, as of a module that asks for its trainer."""
        self.model.train()
        try:
            loss = self._loss(self.batch(examples, np.arange(2) % len(examples)), 0)
            torch.autograd.grad(loss, list(self.model.parameters), materialize_grads=True)
        except Exception as error:  # of the user's own code
            raise self._refused(f"{STEP} on two examples fails: {type(error).__name__}: {said(error)}") from error

    def optimizer(self, parameters: list[Tensor], task: LocalTask) -> Update:
        """Return the step of the optimizer that the module configures, or of ``training.optimizer``."""
        configured = self._configured() if self._configure else None
        if configured is None:
            return super().optimizer(parameters, task)
        optimizer, scheduler, by_step, every = configured
        steps = max(self.steps_of(task) // self.training.local_epochs, 1)  # of a pass
        unit = 1 if by_step else steps
        taken = (task.round_number - 1) * self.steps_of(task)
        if scheduler is not None:
            _forward(scheduler, taken // (unit * every))

        def update(gradients: list[Tensor]) -> None:
            nonlocal taken
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            optimizer.step()
            optimizer.zero_grad()
            taken += 1
            if scheduler is not None and taken % (unit * every) == 0:
                scheduler.step()

        return update

    def change_for(self, parameters: list[Tensor], task: LocalTask) -> Update:
        """Return what changes the parameters; weight decay is that of the optimizer which the module configures."""
        self._optimizer.is_ours = self._optimizer.is_ours and not self._configure
        return super().change_for(parameters, task)

    def step_for(self, task: LocalTask) -> Callable[[Tensor, Tensor], Tensor]:
        """Return the function that takes one step by the module's ``training_step`` and returns its loss."""
        parameters: list[Tensor] = list(self.model.parameters)
        change = self.change_for(parameters, task)
        number = 0

        def step(inputs: Tensor, targets: Tensor) -> Tensor:
            nonlocal number
            loss = self._loss((inputs, targets), number)
            number += 1
            change(list(torch.autograd.grad(loss, parameters, materialize_grads=True)))
            return loss.detach()

        return step

    def _loss(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
        assert self._step is not None
        batch = (self.model.passed(batch[0])[0], batch[1])
        found = self._step(batch, number) if self._takes_number else self._step(batch)
        loss = found.get("loss") if isinstance(found, Mapping) else found
        if not isinstance(loss, Tensor):
            kind = type(found).__name__
            raise TypeError(f"{STEP} returned a {kind}: return the loss of the batch, or a dict with 'loss'")
        return loss.mean()

    def _configured(self) -> Configured | None:
        assert self._configure is not None
        optimizers, schedulers = _both(self._configure())
        if not optimizers:
            return None
        if len(optimizers) > 1 or len(schedulers) > 1:
            several = f"{OPTIMIZERS} returns {len(optimizers)} optimizers and {len(schedulers)} schedulers"
            raise self._refused(f"{several}: return one of each, or write a training.learner")
        if computes_again(optimizers[0]):
            raise self._refused(f"{type(optimizers[0]).__name__}: {COMPUTES_AGAIN}")
        found = Configured(optimizers[0])
        for each in schedulers:
            about = each if isinstance(each, Mapping) else {"scheduler": each}
            by_step, every = about.get("interval", "epoch") == "step", int(about.get("frequency", 1))
            found = found._replace(scheduler=about["scheduler"], by_step=by_step, every=every)
            if isinstance(found.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
                raise self._refused("its scheduler waits for a metric: return one that counts epochs or steps")
        return found

    def _refused(self, why: str) -> SettingError:
        return SettingError("model.name", self._name, why)


def _both(given: Any) -> tuple[list[Any], list[Any]]:
    """Return the optimizers and the schedulers that ``configure_optimizers`` has returned, in any form of Lightning's.

    >>> _both(None), _both({"optimizer": 1, "lr_scheduler": 2}), _both(([1], [2])), _both([1, 2])
    (([], []), ([1], [2]), ([1], [2]), ([1, 2], []))
    """
    if given is None:
        return [], []
    if isinstance(given, Mapping):
        return [given["optimizer"]], [given["lr_scheduler"]] if "lr_scheduler" in given else []
    if not isinstance(given, list | tuple):
        return [given], []
    if len(given) == 2 and all(isinstance(each, list | tuple) for each in given):
        return list(given[0]), list(given[1])
    both = [_both(each) for each in given]
    return [each for one, _ in both for each in one], [each for _, one in both for each in one]


def _forward(scheduler: Any, steps: int) -> None:
    """Let a scheduler take the steps of earlier rounds."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Detected call of `lr_scheduler.step")
        for _ in range(steps):
            scheduler.step()


def _positional(function: Callable[..., Any]) -> int:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    is_open = any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters)
    return 2 if is_open else sum(each.kind in kinds for each in parameters)
