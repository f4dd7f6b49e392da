"""What takes a step of local training, by the gradients of its loss; it begins anew in every round.

Ours is the step of `torch.optim.SGD` (momentum without dampening), written on lists of tensors: an optimizer object for
each node and round would cost more than it does on small partitions. Any other is torch's, or one derived from it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fedlearn.config.tables.learning_settings import TrainingSettings
from fedlearn.core.errors import SettingError
from fedlearn.plugins import tables
from fedlearn.plugins.options import options_for
from fedlearn.plugins.registry import Registry

Update = Callable[[list[Tensor]], None]
"""Changes the parameters in place by their gradients, which it may overwrite."""

OURS = "sgd"  # as the table below has it
OPTIMIZERS = Registry(
    "training.optimizer",
    tables.OPTIMIZERS,
)
RESERVED = ("params", "lr", "weight_decay")


def sgd(parameters: list[Tensor], *, lr: float, momentum: float) -> Update:
    """Return what steps against the mean of the gradients so far, each weighing `momentum` times what the next does."""
    velocity: list[Tensor] = []

    def update(gradients: list[Tensor]) -> None:
        if momentum:
            if velocity:
                torch._foreach_mul_(velocity, momentum)
                torch._foreach_add_(velocity, gradients)
            else:
                velocity.extend(gradients)
            gradients = velocity
        torch._foreach_add_(parameters, gradients, alpha=-lr)

    return update


COMPUTES_AGAIN = "its steps compute the loss several times (closure): take one that steps by a gradient, such as Adam"


class Optimizer:
    """The optimizer of ``training.optimizer``, with its own options.

    Parameters
    ----------
    options
        Keyword parameters of the optimizer, as ``{"betas": [0.9, 0.99]}``; ours has none.

    Raises
    ------
    SettingError
        For an optimizer or an option that there is not.
    """

    def __init__(self, training: TrainingSettings, options: Mapping[str, Any]) -> None:
        self.is_ours = training.optimizer == OURS
        self._training = training
        if self.is_ours:
            self._options = options_for(lambda: None, options, setting="training.options")
            return
        self._kind = OPTIMIZERS.load(training.optimizer)
        if not (isinstance(self._kind, type) and issubclass(self._kind, torch.optim.Optimizer)):
            raise SettingError("training.optimizer", training.optimizer, "it is no torch.optim.Optimizer")
        if computes_again(self._kind):
            raise SettingError("training.optimizer", training.optimizer, COMPUTES_AGAIN)
        self._options = options_for(self._kind, options, setting="training.options", reserved=RESERVED)
        if "weight_decay" in inspect.signature(self._kind).parameters:
            self._options["weight_decay"] = training.weight_decay
        elif training.weight_decay:
            raise SettingError(
                "training.weight_decay", training.weight_decay, f"{training.optimizer!r} has none: use 0"
            )

    def on(self, parameters: list[Tensor], *, lr: float, still: Sequence[Tensor] = ()) -> Update:
        """Return the function that takes the steps of an optimizer with empty momentum, at this learning rate.

        Parameters
        ----------
        still
            The parameters to which ``training.weight_decay`` does not apply. fedlearn's own SGD applies it to none:
            `client.learners.sgd` adds it to the gradients.
        """
        if self.is_ours:
            return sgd(parameters, lr=lr, momentum=self._training.momentum)
        groups: list[Any] = list(parameters)
        if still:
            ids = {id(each) for each in still}
            decaying = [each for each in parameters if id(each) not in ids]
            groups = [{"params": decaying}] * bool(decaying) + [{"params": [*still], "weight_decay": 0.0}]
        optimizer = self._kind(groups, lr=lr, **self._options)

        def update(gradients: list[Tensor]) -> None:
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            optimizer.step()

        return update


def computes_again(kind: Any) -> bool:
    """Return whether a step of an optimizer needs a function that computes the loss again, as that of LBFGS.

    >>> computes_again(torch.optim.LBFGS), computes_again(torch.optim.Adam)
    (True, False)
    """
    closure = inspect.signature(kind.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty
