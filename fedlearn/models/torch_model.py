"""A torch module as a Model: the only seam between torch tensors and our named arrays.

All float32 parameters are views of one flat buffer, and images come as (B, H, W, C) bytes whose permutation to
(B, C, H, W) is already in torch's channels_last format: convolutions on the CPU are some 10 % faster on it, and no
copy is needed to get there.

Shapes: B batch, C channels, H height, W width, K classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parameter import UninitializedParameter

from fedlearn.data.base import DataSpec, Examples
from fedlearn.metrics import ACCURACY, LOSS, NEURAL_CLASSIFIER
from fedlearn.models.base import NOTHING, Evaluation
from fedlearn.models.process import prepare_to_train
from fedlearn.seeding import seed_for
from fedlearn.state import State, UpdateKind

EVALUATION_BATCH = 100  # images; larger batches push activations out of the cache (1.3-1.7 times slower)


class TorchModel:
    """An image classifier by cross-entropy; one with another loss overrides `loss`, `measure` and `metrics`.

    Parameters
    ----------
    build : callable
        Called without arguments; returns the module: (B, C, H, W) float32 -> (B, K) logits.
    spec : DataSpec
        Of the images: their shape, and the channels' mean and standard deviation.

    Examples
    --------
    >>> from fedlearn.data.cifar10 import SPEC
    >>> from fedlearn.models.cnn import CNN
    >>> model = TorchModel(lambda: CNN(SPEC), SPEC)
    >>> model.initial_state(seed=1)["fc3.bias"].shape
    (10,)
    """

    update_kind = UpdateKind.DENSE
    learner = "sgd"
    metrics = NEURAL_CLASSIFIER

    def __init__(self, build: Callable[[], nn.Module], spec: DataSpec) -> None:
        prepare_to_train()
        self.spec = spec
        # Repeated over the image, (H, W, C): the inner loop of the arithmetic is then long and without a stride.
        self._mean = (torch.tensor(spec.mean) * 255).expand(spec.shape).contiguous()
        self._scale = (1 / (torch.tensor(spec.std) * 255)).expand(spec.shape).contiguous()
        self._build = build
        with torch.random.fork_rng():
            self.module = self._fresh()
        self.parameters = [p for p in self.module.parameters() if p.requires_grad]
        _flatten(self.parameters)
        # Views of the module's own memory: parameters and buffers.
        self._views = {name: tensor.numpy() for name, tensor in self.module.state_dict().items()}

    def initial_state(self, *, seed: int) -> State:
        """Return the module's own initialisation under a seed."""
        with torch.random.fork_rng():
            torch.manual_seed(seed_for(seed, purpose="initial state"))
            fresh = self._fresh().state_dict()
        return {name: tensor.numpy().copy() for name, tensor in fresh.items()}

    def _fresh(self) -> nn.Module:
        """Return a new module; layers that find out their own size, as `nn.LazyLinear`, are shown two examples."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Lazy modules")
            module = self._build()
        if any(isinstance(each, UninitializedParameter) for each in module.parameters()):
            with torch.no_grad():
                module(self.inputs(np.zeros((2, *self.spec.shape), self.spec.dtype)))
        return module

    def load(self, state: State) -> None:
        """Copy a state into the module."""
        for name, view in self._views.items():
            np.copyto(view, state[name])

    def arrays(self) -> State:
        """Return the module's state as arrays that share its memory."""
        return self._views

    def inputs(self, images: NDArray[np.uint8]) -> Tensor:
        """Return images (B, H, W, C) as normalised float32 (B, C, H, W) in channels_last format."""
        batch = torch.from_numpy(images).to(torch.float32).sub_(self._mean).mul_(self._scale)
        return batch.permute(0, 3, 1, 2)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return what a step makes smaller: the mean over the batch, of (B, K) logits and (B,) labels."""
        return functional.cross_entropy(outputs, targets)

    def measure(self, outputs: Tensor, targets: Tensor) -> dict[str, float]:
        """Return the sums over the batch of what `metrics` says is evaluated."""
        loss = functional.cross_entropy(outputs, targets, reduction="sum")
        correct = (outputs.argmax(1) == targets).sum()
        return {LOSS.name: loss.item(), ACCURACY.name: int(correct)}

    def try_step(self, examples: Examples) -> None:
        """Compute loss and gradient of a few examples.

        Raises
        ------
        ValueError
            If there are fewer outputs than classes; whatever the module raises.
        """
        with torch.random.fork_rng():
            self.module.train()
            outputs = self.module(self.inputs(np.array(examples.inputs)))
            if outputs.ndim != 2 or outputs.shape[1] < self.spec.classes:
                wanted = f"({len(examples)}, {self.spec.classes})"
                raise ValueError(f"its outputs have shape {tuple(outputs.shape)}, which should be {wanted}")
            loss = self.loss(outputs, torch.from_numpy(np.array(examples.targets)))
            torch.autograd.grad(loss, self.parameters, materialize_grads=True)

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return what is measured, in float64 sums over batches of fixed size."""
        self.load(state)
        self.module.eval()
        total = NOTHING
        with torch.inference_mode():
            for start in range(0, len(examples), EVALUATION_BATCH):
                batch = slice(start, start + EVALUATION_BATCH)
                outputs = self.module(self.inputs(np.array(examples.inputs[batch])))  # (B, K)
                labels = torch.from_numpy(np.array(examples.targets[batch]))  # (B,)
                total += Evaluation(self.measure(outputs, labels), len(labels))
        return total


def _flatten(parameters: list[nn.Parameter]) -> Tensor:
    """Make all parameters views of one flat buffer."""
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
    start = 0
    for parameter in parameters:
        stop = start + parameter.numel()
        parameter.data = flat[start:stop].view_as(parameter)
        start = stop
    return flat
