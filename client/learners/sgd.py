"""Local SGD on a torch model, with FedProx's pull if wanted.

The step is that of `torch.optim.SGD` (momentum without dampening, weight decay added to the gradient), written on
lists of tensors: an optimizer object for each node and round would cost more than it does on small partitions.

Sources: McMahan et al. 2017 (arXiv:1602.05629), ClientUpdate; Li et al. 2020 (arXiv:1812.06127), eq. 2, for the pull;
Li et al. 2020 (arXiv:1907.02189), theorem 1, for a learning rate that falls as one over the round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from client.learners.base import Learner, LocalFit, LocalTask
from fedlearn.config import RunConfig
from fedlearn.config.options import options_for
from fedlearn.config.schema import DataSettings, TrainingSettings
from fedlearn.data.base import Examples
from fedlearn.metrics import TRAIN_LOSS
from fedlearn.models.torch_model import TorchModel
from fedlearn.seeding import rng_for, seed_for
from fedlearn.state import State


class SGD(Learner):
    """Trains one model, one node after another, in the same memory.

    Parameters
    ----------
    model
        Is loaded with the state before each fit.
    training, data
        Settings of the run.
    """

    def __init__(self, model: TorchModel, training: TrainingSettings, data: DataSettings) -> None:
        self.model = model
        self.training = training
        self.augment = _augmentation(model.spec.shape[:2]) if data.augment else None

    @classmethod
    def from_settings(cls, model: TorchModel, config: RunConfig) -> Self:
        """Return the learner of a run."""
        options_for(cls, config.training.options, setting="training.options", reserved=("model", "training", "data"))
        return cls(model, config.training, config.data)

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the state after ``local_epochs`` passes over the node's examples."""
        train = task.train
        where = {"round_number": task.round_number, "node": task.partition_id}
        shuffle = rng_for(task.seed, purpose="shuffle", **where)
        # For dropout and augmentation. Not `torch.manual_seed`: it also queues the seed, with a stack trace, for every
        # accelerator that is not there.
        torch.default_generator.manual_seed(seed_for(task.seed, purpose="torch", **where))
        self.model.load(state)
        self.model.module.train()
        step = self.step_for(task)
        loss_sum = torch.zeros(())
        steps = 0
        for _ in range(self.training.local_epochs):
            order = task.indices[shuffle.permutation(len(task.indices))]
            for start in range(0, len(order), self.training.batch_size):
                rows = order[start : start + self.training.batch_size]
                loss_sum += step(self._inputs(train, rows), torch.from_numpy(train.targets[rows]))
                steps += 1
        metrics = {TRAIN_LOSS.name: loss_sum.item() / steps}
        return LocalFit(self.model.arrays(), len(task.indices), metrics)

    def _inputs(self, train: Examples, rows: NDArray[np.integer[Any]]) -> Tensor:
        images = train.inputs[rows]  # (B, H, W, C) bytes
        if self.augment is not None:
            images = self.augment(torch.from_numpy(images)).numpy()
        return self.model.inputs(images)

    def step_for(self, task: LocalTask) -> Callable[[Tensor, Tensor], Tensor]:
        """Return what takes one SGD step on a batch and returns its mean loss; asked for once a fit, the state loaded.

        A learner with another step overrides it: inputs (B, C, H, W) and labels (B,) come in, the parameters of
        `model` are changed in place.
        """
        settings = self.training
        parameters: list[Tensor] = list(self.model.parameters)
        lr = settings.lr / (1 + settings.lr_decay * (task.round_number - 1))
        pull = float(task.config.get("proximal-mu", settings.proximal_mu))
        start = [p.detach().clone() for p in parameters] if pull else []
        velocity: list[Tensor] = []

        def step(images: Tensor, labels: Tensor) -> Tensor:
            loss = self.model.loss(self.model.module(images), labels)
            gradients = list(torch.autograd.grad(loss, parameters, materialize_grads=True))
            with torch.no_grad():
                if settings.weight_decay:
                    torch._foreach_add_(gradients, parameters, alpha=settings.weight_decay)
                if pull:
                    torch._foreach_add_(gradients, parameters, alpha=pull)
                    torch._foreach_add_(gradients, start, alpha=-pull)
                if settings.momentum:
                    if velocity:
                        torch._foreach_mul_(velocity, settings.momentum)
                        torch._foreach_add_(velocity, gradients)
                    else:
                        velocity.extend(gradients)
                    gradients = velocity
                torch._foreach_add_(parameters, gradients, alpha=-lr)
            return loss.detach()

        return step


def _augmentation(size: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
    """Return a function that flips and crops each image of a batch (B, H, W, C) on its own."""
    from torchvision.transforms import v2

    one = v2.Compose([v2.RandomCrop(size, padding=4), v2.RandomHorizontalFlip()])

    def augment(images: Tensor) -> Tensor:
        channels_first = images.permute(0, 3, 1, 2)
        return torch.stack([one(image) for image in channels_first]).permute(0, 2, 3, 1).contiguous()

    return augment
