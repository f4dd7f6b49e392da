"""DP-SGD: local training that is private for each record of the node.

A step draws a batch by coins, clips the gradient of each example to ``privacy.clip`` over all parameters together, adds
Gaussian noise to their sum, divides by the *expected* size of a batch, and steps. The optimizer, weight decay and the
pull of FedProx see the noisy gradient alone: post-processing.

*Claim.* A fit is a Gaussian mechanism, repeated ``plan.steps`` times with Poisson sampling of records
(`RecordPlan.mechanism`), between data sets of which one has a record more. *Proof.* Parameters before a step are
published or follow from earlier answers. A record that is in the batch adds at most clip to the sum in the L2 norm
(`fedlearn.models.per_example`); coins of other records do not depend on it. Number of steps, rate and divisor are
constants. Whether an example fails depends on the example alone, and then it adds nothing. Dropout and augmentation
draw for each place by itself, from numbers that nobody knows: assigned to records, they are a part of the record.

*Rounding.* With secure noise the gradient of a record is the same to the last bit, whatever other records there are:
batches have one shape, and places are filled one after another only where all places of a batch are seen to compute
alike (`fedlearn.models.per_example.alike_places`). Where they are not, each record has a place by a hash of its own
content, which leaves places empty and takes twice the time. Where a batch fails, each of its examples is computed in
its own place with all others empty, so that none makes another go another way. With seeded noise, which protects
nobody, none of this is needed.

Source: Abadi et al. 2016 (arXiv:1607.00133), algorithm 1.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from client.learners.learner import LocalFit, LocalTask
from client.learners.poisson_batches import Draws, draws_for
from client.learners.sgd import SGD
from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError, said
from fedlearn.core.metric import EPSILON
from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples
from fedlearn.data.drawing import drawn
from fedlearn.models.per_example import check_apart, clipped_sum_of, places_alike
from fedlearn.models.per_example.clipped_sum import ClippedSum
from fedlearn.models.per_example.made_up_examples import made_up
from fedlearn.models.per_example.one_by_one import OneByOne
from fedlearn.models.torch.device import seed_torch
from fedlearn.models.torch.torch_model import TorchModel
from fedlearn.privacy import gaussian
from fedlearn.privacy.accounts import GaussianRounds
from fedlearn.privacy.record_costs import RecordPlan

Rows = NDArray[np.integer[Any]]
SECURE_PLACES = 32  # of a batch of one shape: with many most stay empty, few take longer for each

log = logging.getLogger("fedlearn.node")


class DPSGD(SGD):
    """Trains a model by gradients of single examples, clipped, with noise on their sums.

    Raises
    ------
    SettingError
        For a model that mixes examples, and for settings that would tell the number of records or spend it otherwise.
    """

    is_private = True
    kept_between_fits: ClassVar[tuple[str, ...]] = (*SGD.kept_between_fits, "_sum")

    def __init__(self, model: TorchModel, config: RunConfig, **optimizer_options: Any) -> None:
        _check(model, config)
        super().__init__(model, config, **optimizer_options)
        self.plan = RecordPlan.of(config)
        self.plan.check()
        self.privacy = config.privacy
        self.is_secure = config.privacy.noise != "seeded"
        check_apart(model, config.model.name)
        expected = SECURE_PLACES if self.is_secure else round(self.plan.expected)
        self._sum = clipped_sum_of(model, expected)
        check_apart(model, config.model.name, count=self._sum.places)
        self._try_made_up()
        self._is_placed = self.is_secure and not places_alike(self._sum)

    def mechanism(self, *, round_number: int = 1) -> GaussianRounds:
        """Return what a fit costs."""
        return self.plan.mechanism

    def planned(self) -> int:
        """Return the number of steps of the whole run, in which the node takes part at most."""
        return self.plan.planned

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the state after the planned steps, and the epsilon of a node that has taken part in every round."""
        draws = self._draws(task)
        seed_torch(self.model.device, draws.torch_seed)
        self.model.load(state)
        self.model.train()
        parameters: list[Tensor] = list(self.model.parameters)
        change = self.change_for(parameters, task)
        places = self._places(task)
        for _ in range(self._steps(task)):
            taken = self._taken(task, draws)
            with _as_they_are([*self.model.module.parameters(), *self.model.module.buffers()]):
                total = self._sum_over(task, taken, places)
            noisy = self._noisy(total, draws)
            gradient = torch.from_numpy(self._divided(noisy, int(taken.sum())).astype(np.float32))
            split = gradient.to(self.model.device).split([each.numel() for each in parameters])
            change([part.view_as(each) for part, each in zip(split, parameters, strict=True)])
        trained = self.model.arrays()
        arrays = {name: trained[name] if name in self.model.names else state[name] for name in state}
        return LocalFit(arrays, 1, {EPSILON.name: self.plan.spent_after(task.round_number)})

    def _try_made_up(self) -> None:
        """Raise SettingError where made-up examples have no gradients: then those of a node would all add nothing."""
        model, places = self.model, self._sum.places
        try:
            OneByOne(model, 1).gradient(*made_up(model, 1))
            taken = torch.ones(places, dtype=torch.bool, device=model.device)
            self._sum(*made_up(model, places), taken, clip=self.privacy.clip)
        except Exception as error:
            why = f"gradients of made-up examples fail: {type(error).__name__}: {said(error)}"
            raise SettingError("training.learner", "dp-sgd", why) from error
        finally:
            model.beside.put_back()

    # Each of these is a part of the claim, and planted mistakes replace one of them
    # (`fedlearn/auditing/records/planted.py`).

    def _draws(self, task: LocalTask) -> Draws:
        return draws_for(task, is_secure=self.is_secure)

    def _steps(self, task: LocalTask) -> int:
        return self.plan.steps

    def _taken(self, task: LocalTask, draws: Draws) -> NDArray[np.bool_]:
        return draws.coins(len(task.indices), self.plan.sampling_rate)

    def _noisy(self, total: NDArray[np.float64], draws: Draws) -> NDArray[np.float64]:
        noise = self.plan.mechanism.noise_multiplier
        return gaussian(total, clip=self.privacy.clip, noise_multiplier=noise, noise=draws.noise)

    def _divided(self, noisy: NDArray[np.float64], count: int) -> NDArray[np.float64]:
        return noisy / self.plan.expected

    def _sum_over(self, task: LocalTask, taken: NDArray[np.bool_], places: Rows) -> NDArray[np.float64]:
        """Return the clipped sum over a batch, (P,)."""
        chunks = list(_chunks(task.indices[taken], places[taken], self._sum.places, is_placed=self._is_placed))
        return self._clipped(task.train, chunks, clip=self.privacy.clip)

    def _clipped(self, train: Examples, chunks: list[Rows], *, clip: float) -> NDArray[np.float64]:
        """Return the clipped sum over chunks: rows by place, -1 where a place is empty."""
        total = torch.zeros(sum(each.numel() for each in self.model.parameters), dtype=torch.float64)
        for chunk in chunks:
            total += self._of_chunk(train, chunk, clip=clip)
        return total.numpy()

    def _of_chunk(self, train: Examples, chunk: Rows, *, clip: float) -> Tensor:
        """Return the clipped sum over a chunk; where a computation fails, over its examples one after another.

        Each is then computed in its own place of a batch of the same shape: to the same bits as with others.
        """
        try:
            return self._of_places(train, chunk, clip=clip)
        except Exception as error:  # of an example: whether a node fails must not depend on one
            log.error("dp-sgd: a batch fails (%s: %s): one example after another", type(error).__name__, said(error))
            numbers = sum(each.numel() for each in self.model.parameters)
            total = torch.zeros(numbers, dtype=torch.float64)
            for place in np.flatnonzero(chunk >= 0):
                alone = np.where(np.arange(len(chunk)) == place, chunk, -1)
                total += self._of_one(train, alone, clip=clip)
            return total

    def _of_one(self, train: Examples, alone: Rows, *, clip: float) -> Tensor:
        """Return the clipped gradient of one example: by the way of all, by its own pass, or nothing if both fail."""
        for way in (self._sum, OneByOne(self.model, self._sum.places)):
            with suppress(Exception):  # of torch, of the user's module or of what reads the example
                return self._of_places(train, alone, clip=clip, way=way)
        return torch.zeros(sum(each.numel() for each in self.model.parameters), dtype=torch.float64)

    def _of_places(self, train: Examples, chunk: Rows, *, clip: float, way: ClippedSum | None = None) -> Tensor:
        taken = np.zeros(self._sum.places, bool)
        taken[: len(chunk)] = chunk >= 0
        if not taken.any():
            return torch.zeros(sum(each.numel() for each in self.model.parameters), dtype=torch.float64)
        inputs, targets = self.batch(train, chunk[chunk >= 0])
        where = torch.from_numpy(taken).to(self.model.device)
        return (way or self._sum)(_spread(inputs, where), _spread(targets, where), where, clip=clip).cpu()

    def _places(self, task: LocalTask) -> Rows:
        """Return the place of each of the node's examples in a batch, by its own content where places differ."""
        if not self._is_placed:
            return np.zeros(len(task.indices), np.int64)
        mine = task.train.at(task.indices)
        return (drawn(mine, seed=task.seed, purpose="place in a batch") * self._sum.places).astype(np.int64)


@contextmanager
def _as_they_are(tensors: list[Tensor]) -> Iterator[None]:
    """Put tensors back after the block: nothing but the optimizer writes any, whatever a module does."""
    before = [each.detach().clone() for each in tensors]
    yield
    with torch.no_grad():
        for each, own in zip(tensors, before, strict=True):
            each.copy_(own)


def _chunks(rows: Rows, places: Rows, width: int, *, is_placed: bool) -> Iterator[Rows]:
    """Yield batches of `width` places, each the row at a place, or -1.

    >>> [chunk.tolist() for chunk in _chunks(np.array([7, 8, 9]), np.array([1, 1, 0]), 2, is_placed=True)]
    [[9, 7], [-1, 8]]
    """
    if not is_placed:
        yield from (rows[start : start + width] for start in range(0, len(rows), width))
        return
    order = np.argsort(places, kind="stable")
    counts = np.bincount(places, minlength=width)
    layer = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    for each in range(int(counts.max(initial=0))):
        chunk = np.full(width, -1, rows.dtype)
        here = order[layer == each]
        chunk[places[here]] = rows[here]
        yield chunk


def _spread(values: Tensor, taken: Tensor) -> Tensor:
    """Return values at the places that are taken, zeros at the others: one shape, whatever was drawn."""
    spread = values.new_zeros((len(taken), *values.shape[1:]))
    if values.ndim == 4:
        spread = spread.to(memory_format=torch.channels_last)
    spread[taken] = values
    return spread


def _check(model: TorchModel, config: RunConfig) -> None:
    """Refuse what a private fit cannot have."""
    training, privacy = config.training, config.privacy
    wrong = [
        ("privacy.protects", privacy.protects, privacy.protects != "records",
         "learner 'dp-sgd' protects records: write --private records"),
        ("model.name", config.model.name, not isinstance(model, TorchModel),
         "dp-sgd trains torch modules: take one, or leave privacy.protects empty, as this model is private by itself"),
        ("privacy.public_sizes", True, privacy.public_sizes,
         "the account is of records that are added or removed, whose number nobody knows: use false"),
        ("training.precision", training.precision, training.precision != "float32",
         "gradients of single examples are computed in float32: use that"),
        ("training.personal", training.personal, bool(training.personal),
         "personal layers stay on the client, and no account counts them: leave it empty"),
        ("training.micro_batch", training.micro_batch, training.micro_batch > 0,
         "gradients of single examples are computed, some at a time: use 0"),
        ("training.partial", True, training.partial, "the number of steps is a part of the account: use false"),
        ("training.baseline", training.baseline, training.baseline != "none",
         "steps follow from privacy.records, not from the examples of a baseline: set --clients 1 in place of it"),
    ]  # fmt: skip
    for setting, value, is_wrong, why in wrong:
        if is_wrong:
            raise SettingError(setting, value, why)
