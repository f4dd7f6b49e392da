"""A torch module as a Model: the only seam between torch tensors and our named arrays.

All float32 parameters are views of one flat buffer, and images come as (B, H, W, C) bytes whose permutation to
(B, C, H, W) is already in torch's channels_last format: convolutions on the CPU are some 10 % faster on it, and no
copy is needed to get there.

Shapes: B batch, C channels, H height, W width, K classes.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedlearn.data.base import AnyExamples, Dataset, Examples
from fedlearn.metrics import ACCURACY, LOSS, NEURAL_CLASSIFIER
from fedlearn.models.base import NOTHING, Evaluation
from fedlearn.models.process import prepare_to_train
from fedlearn.seeding import seed_for
from fedlearn.state import State, UpdateKind

EVALUATION_BATCH = 100  # images; larger batches push activations out of the cache (1.3-1.7 times slower)


class TorchModel:
    """An image classifier.

    Parameters
    ----------
    build
        Called without arguments; returns the module: (B, C, H, W) float32 -> (B, K) logits.
    dataset
        Gives the channels' mean and standard deviation.
    """

    update_kind = UpdateKind.DENSE
    learner = "sgd"
    metrics = NEURAL_CLASSIFIER

    def __init__(self, build: type[nn.Module], dataset: Dataset) -> None:
        prepare_to_train()
        self._build = build
        with torch.random.fork_rng():
            self.module = build()
        self.parameters = [p for p in self.module.parameters() if p.requires_grad]
        _flatten(self.parameters)
        # Views of the module's own memory: parameters and buffers.
        self._views = {name: tensor.numpy() for name, tensor in self.module.state_dict().items()}
        # Repeated over the image, (H, W, C): the inner loop of the arithmetic is then long and without a stride.
        shape = dataset.train.images.shape[1:]
        self._mean = (torch.tensor(dataset.mean) * 255).expand(shape).contiguous()
        self._scale = (1 / (torch.tensor(dataset.std) * 255)).expand(shape).contiguous()

    def initial_state(self, *, seed: int) -> State:
        """Return the module's own initialisation under a seed."""
        with torch.random.fork_rng():
            torch.manual_seed(seed_for(seed, purpose="initial state"))
            fresh = self._build().state_dict()
        return {name: tensor.numpy().copy() for name, tensor in fresh.items()}

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

    def evaluate(self, state: State, examples: AnyExamples) -> Evaluation:
        """Return cross-entropy and accuracy, in float64 sums over batches of fixed size."""
        assert isinstance(examples, Examples)
        self.load(state)
        self.module.eval()
        total = NOTHING
        with torch.inference_mode():
            for start in range(0, len(examples), EVALUATION_BATCH):
                batch = slice(start, start + EVALUATION_BATCH)
                logits = self.module(self.inputs(np.array(examples.images[batch])))  # (B, K)
                labels = torch.from_numpy(np.array(examples.labels[batch]))  # (B,)
                loss = functional.cross_entropy(logits, labels, reduction="sum")
                correct = (logits.argmax(1) == labels).sum()
                total += Evaluation({LOSS.name: loss.item(), ACCURACY.name: int(correct)}, len(labels))
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
