"""Local SGD on a torch model, with FedProx's pull if wanted.

The gradient of the loss is clipped if wanted; then weight decay and the pull are added; then the optimizer steps.

Sources: McMahan et al. 2017 (arXiv:1602.05629), ClientUpdate; Li et al. 2020 (arXiv:1812.06127), eq. 2, for the pull;
Li et al. 2020 (arXiv:1907.02189), theorem 1, for a learning rate that falls as one over the round.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from client.learners.augmentation import augmentation_for
from client.learners.learner import Learner, LocalFit, LocalTask
from client.learners.optimizers import Optimizer, Update
from client.learners.stack import Progress, Stack, networks_for, why_not_stacked
from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError
from fedlearn.core.metric import TOKENS, TRAIN_LOSS, WORK_DONE
from fedlearn.core.seeding import rng_for, seed_for
from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples
from fedlearn.kernels.pooled_convolution import has_vectors
from fedlearn.models.learning_rates import LR_SCHEDULES, learning_rate
from fedlearn.models.stacks import ExactNetwork
from fedlearn.models.torch.device import CPU, seed_torch
from fedlearn.models.torch.gradients import owned
from fedlearn.models.torch.parts import named_by
from fedlearn.models.torch.torch_model import TorchModel
from fedlearn.plugins.options import options_for

NOT_ZERO = 1e-6  # added to a norm that is divided by, as torch.nn.utils.clip_grad_norm_ does
OWN_STEPS = "{} takes its steps itself, each on a whole batch: use 0, and a smaller training.batch_size"
IN_VAIN = "training.decayed = {} has no effect, as training.weight_decay is 0"
ON_TOP = (
    "learner {kind} makes its own optimizer; training.momentum = {momentum:g} acts on top of it where it calls "
    "SGD.optimizer: training.momentum = 0 turns that off"
)


class SGD(Learner):
    """Trains a model on one node after another, in the same memory; or on a stack of nodes (``training.stack``).

    A learner of another kind derives from it and overrides what differs: `optimizer`, `learning_rate`, `gradients`,
    `is_enough`, or `step_for` as a whole.

    Parameters
    ----------
    model
        The model; the state is loaded into it before each fit.
    config
        Settings of the run.
    optimizer_options
        Options of the optimizer that the settings name.

    Attributes
    ----------
    kept_between_fits
        Names of attributes that stay from fit to fit; all others are put back before each fit (`client.isolated_fits`).
    can_stack
        Whether the methods that a learner overrides also hold where several nodes are trained together: they read no
        parameters but their arguments, and `step_for` is not overridden.
    """

    kept_between_fits: ClassVar[tuple[str, ...]] = ("_stack", "_network")
    can_stack: ClassVar[bool] = False

    def __init__(self, model: TorchModel, config: RunConfig, **optimizer_options: Any) -> None:
        self.model = model
        self.training = config.training
        self.rounds = config.rounds.total
        self.augment = augmentation_for(config.data.augment, model.spec) if config.data.augment else None
        self._optimizer = Optimizer(self.training, optimizer_options)
        self._stack: Stack | None = None
        self._network = networks_for(model.device)[0] if self.training.stack else ExactNetwork
        LR_SCHEDULES.load(self.training.lr_schedule)  # one that there is not is refused here
        self._decayed = self._named_by(self.training.decayed) if self.training.decayed else None
        if self.training.micro_batch and type(self).step_for is not SGD.step_for:
            raise SettingError("training.micro_batch", self.training.micro_batch, OWN_STEPS.format(type(self).__name__))

    @classmethod
    def from_settings(cls, model: TorchModel, config: RunConfig) -> Self:
        """Return the learner of a run; keyword parameters of its constructor are ``training.options``."""
        given = config.training.options
        options = options_for(cls, given, setting="training.options", reserved=("model", "config"))
        return cls(model, config, **options)

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the state after ``local_epochs`` passes over the node's examples, or after ``task.most_examples``."""
        seed_torch(self.model.device, self.torch_seed(task))  # for dropout and augmentation
        self.model.load(state)
        self.model.train()
        if self._is_alone(task):
            self.model.module.eval()
        step = self.step_for(task)
        progress = Progress(torch.zeros((), device=self.model.device))
        for rows in self.batches(task, progress):
            progress.loss_sum += step(*self.batch(task.train, rows))
            progress.steps += 1
            progress.tokens += self.model.tokens_in(task.train, rows)
        return self.fitted(self.model.arrays(), task, progress)

    def fit_many(self, state: State, tasks: Iterable[LocalTask]) -> Iterator[LocalFit]:
        """Yield the fit of each task; ``training.stack`` nodes at a time are trained in one computation.

        With 0 all of them are, where they have the bytes that they have alone.
        """
        most, remaining = self.training.stack, iter(tasks)
        if not most:
            tasks = list(remaining)
            is_exact = tasks and not self.why_not_stacked(tasks[0].train)
            most, remaining = len(tasks) if is_exact else 1, iter(tasks)
        while stacked := list(islice(remaining, most)):
            if len(stacked) == 1 or any(self._is_alone(task) for task in stacked):
                for task in stacked:
                    yield self.fit(state, task)
                continue
            if self._stack is None or self._stack.count < len(stacked):
                self._stack = Stack(self, max(self.training.stack, len(stacked)), self._network)
            yield from self._stack.fit(state, stacked)

    def draws(self, rows: int) -> bool:
        """Return whether a pass has several batches: which examples are in each is drawn."""
        return rows > self.training.batch_size

    def why_not_stacked(self, examples: Examples) -> str:
        """Return why nodes cannot be trained in one computation; empty if they can, as a try on examples shows."""
        kind = type(self)
        own = (kind.fit, kind.step_for, kind.loss) != (SGD.fit, SGD.step_for, SGD.loss)
        if own or not (kind is SGD or kind.can_stack):
            return f"{kind.__name__} changes how a client is trained, and does not say can_stack = True"
        if self.model.is_masked or self.model.spec.hides:
            return "its module takes an attention_mask"
        if self.model.precision != "float32":
            return "training.precision is not float32"
        if self.training.micro_batch:
            return "training.micro_batch computes a part of a batch at a time"
        if not self.training.stack:
            is_plain = kind is SGD and self.reads_by_row() and not self.model.spec.is_made_by_functions
            exact = is_plain and self.model.device == CPU and has_vectors()
            return "" if exact else "it is not shown that its sums have the bytes of a client alone"
        why = ""
        for network in networks_for(self.model.device):
            why = why_not_stacked(self, examples, network)
            if not why:
                self._network = network
                return ""
        return why

    def notes(self) -> Iterator[str]:
        """Yield a line if ``training.momentum`` acts on top of an optimizer that a derived learner makes.

        Yield one, too, if ``training.decayed`` names parameters, and none decays.
        """
        if self.training.decayed and not self.training.weight_decay:
            yield IN_VAIN.format(self.training.decayed)
        momentum = self.training.momentum
        if type(self).optimizer is not SGD.optimizer and self._optimizer.is_ours and momentum:
            yield ON_TOP.format(kind=type(self).__name__, momentum=momentum)

    def torch_seed(self, task: LocalTask) -> int:
        """Return the seed of the random numbers of dropout and augmentation."""
        return seed_for(task.seed, purpose="torch", round_number=task.round_number, node=task.partition_id)

    def batches(self, task: LocalTask, progress: Progress) -> Iterator[NDArray[np.integer[Any]]]:
        """Yield the rows of the examples of each step, shape (batch_size,), until the fit is over.

        A last example that is left over alone joins the batch before, where a step needs two (`takes_one`).
        """
        cuts = self._cuts(task)
        shuffle = rng_for(task.seed, purpose="shuffle", round_number=task.round_number, node=task.partition_id)
        most = sys.maxsize if task.most_examples is None else task.most_examples
        seen = 0
        for epoch in range(1, self.training.local_epochs + 1):
            order = task.indices[shuffle.permutation(len(task.indices))]
            for start, stop in pairwise(cuts):
                rows = order[start:stop]
                seen += len(rows)
                if progress.steps and seen > most:
                    return
                yield rows
            if seen > most or self.is_enough(task, epoch, progress.loss_sum, progress.steps):
                return

    def batch(self, train: Examples, rows: NDArray[np.integer[Any]]) -> tuple[Tensor, Tensor]:
        """Return the inputs and targets of rows of the training set, as `model` makes them."""
        return self._inputs(train, rows), self.model.targets(train.targets[rows])

    def fitted(self, arrays: State, task: LocalTask, progress: Progress) -> LocalFit:
        """Return the fit that ends with these arrays, with its training loss."""
        metrics = {TRAIN_LOSS.name: progress.loss_sum.item() / progress.steps}
        if progress.tokens:
            metrics[TOKENS.name] = progress.tokens
        if self.training.partial:
            metrics[WORK_DONE.name] = min(progress.steps / self.steps_of(task), 1.0)
        return LocalFit(arrays, len(task.indices), metrics)

    def _inputs(self, train: Examples, rows: NDArray[np.integer[Any]]) -> Tensor:
        if self.augment is None:
            return self.model.inputs_at(train, rows)
        return self.model.with_targets(self.model.inputs(self.augment(train.inputs[rows])), train.targets[rows])

    # --- what other learners override ---------------------------------------------------------------------------------

    def learning_rate(self, round_number: int) -> float:
        """Return the learning rate of a round; by default as ``training.lr_schedule`` says."""
        return learning_rate(self.training, round_number, self.rounds)

    def optimizer(self, parameters: list[Tensor], task: LocalTask) -> Update:
        """Return the function that changes parameters by the gradients of a step; called once a fit.

        By default it is ``training.optimizer``.
        """
        rate = self.learning_rate(task.round_number)
        return self._optimizer.on(
            parameters, lr=rate, still=[each for each, d in self._with_decay(parameters) if not d]
        )

    def gradients(self, gradients: list[Tensor], task: LocalTask) -> None:
        """Change the gradients of a step in place; they stand in the order of `model.parameters`.

        By default the gradients are clipped to ``training.clip_norm``.
        """
        if self.training.clip_norm:
            norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
            torch._foreach_mul_(gradients, (self.training.clip_norm / (norm + NOT_ZERO)).clamp(max=1.0))

    def is_enough(self, task: LocalTask, epoch: int, loss_sum: Tensor, steps: int) -> bool:
        """Return whether to stop after a local epoch, counted from 1; by default no epoch is left out.

        `loss_sum` is the sum of the losses of all steps so far.
        """
        return False

    def step_for(self, task: LocalTask) -> Callable[[Tensor, Tensor], Tensor]:
        """Return the function of inputs and targets that takes one step and returns the mean loss of the batch.

        It is called once a fit, after the state was loaded. Inputs and targets are as `model` makes them; a step
        changes the parameters of `model` in place.
        """
        parameters: list[Tensor] = list(self.model.parameters)
        change = self.change_for(parameters, task)

        def step(inputs: Tensor, targets: Tensor) -> Tensor:
            loss, gradients = self._gradients_of(inputs, targets, task)
            change(gradients)
            return loss

        return step

    def _gradients_of(self, inputs: Tensor, targets: Tensor, task: LocalTask) -> tuple[Tensor, list[Tensor]]:
        """Return the mean loss of a batch and its gradients, of ``training.micro_batch`` examples at a time.

        The mean of a batch is that of its parts, each weighing as its own mean divides by: where few targets of an
        example count, it weighs little.
        """
        parameters, size = list(self.model.parameters), self.training.micro_batch
        cuts = self._cut_up(len(targets), size, task, "training.micro_batch") if size else []
        if len(cuts) <= 2:
            loss = self.loss(inputs, targets, task)
            return loss.detach(), list(torch.autograd.grad(loss, parameters, materialize_grads=True))
        parts = [slice(*each) for each in pairwise(cuts)]
        weights = [self.model.objective.divisor(targets[part]) for part in parts]
        whole = sum(weights) or 1.0
        mean, gradients = torch.zeros((), device=self.model.device), list[Tensor]()
        for part, weight in zip(parts, weights, strict=True):
            loss = self.loss(inputs[part], targets[part], task) * (weight / whole)
            found = torch.autograd.grad(loss, parameters, materialize_grads=True)
            if gradients:
                torch._foreach_add_(gradients, found)
            else:
                gradients = owned(found)
            mean += loss.detach()
        return mean, gradients

    def loss(self, inputs: Tensor, targets: Tensor, task: LocalTask) -> Tensor:
        """Return the mean loss of a batch, of which a step takes the gradient; by default that of the objective."""
        return self.model.objective.loss(self.model.outputs(inputs), targets)

    def change_for(self, parameters: list[Tensor], task: LocalTask) -> Update:
        """Return the function that changes parameters by the gradients of a step: clipping, decay, pull, optimizer.

        It is called once a fit, after the state was loaded.
        """
        update = self.optimizer(parameters, task)
        decay = self.training.weight_decay if self._optimizer.is_ours else 0.0  # any other does it itself
        decaying = [place for place, (_, decays) in enumerate(self._with_decay(parameters)) if decays]
        shrunk = [parameters[place] for place in decaying]
        pull = float(task.config.get("proximal-mu", self.training.proximal_mu))
        start = [p.detach().clone() for p in parameters] if pull else []

        def change(gradients: list[Tensor]) -> None:
            with torch.no_grad():
                gradients = owned(gradients)
                self.gradients(gradients, task)
                if decay and decaying:
                    torch._foreach_add_([gradients[place] for place in decaying], shrunk, alpha=decay)
                if pull:
                    torch._foreach_add_(gradients, parameters, alpha=pull)
                    torch._foreach_add_(gradients, start, alpha=-pull)
                update(gradients)

        return change

    def reads_by_row(self) -> bool:
        """Return whether the inputs of an example depend on it alone: several nodes can then be read at once."""
        if self.model.spec.collate:
            return False
        return self.augment is None and type(self).batch is SGD.batch and type(self)._inputs is SGD._inputs

    def changes_alike(self, tasks: Sequence[LocalTask]) -> bool:
        """Return whether one call of `change_for` can change the parameters of all these nodes at once.

        It can where each number is treated by itself and all nodes take the same steps.
        """
        kind, first = type(self), tasks[0]
        hooks = (kind.gradients, kind.optimizer, kind.change_for, kind.batches, kind.is_enough)
        return (
            hooks == (SGD.gradients, SGD.optimizer, SGD.change_for, SGD.batches, SGD.is_enough)
            and self._optimizer.is_ours
            and not self.training.clip_norm
            and all(len(task.indices) == len(first.indices) for task in tasks)
            and all(task.most_examples == first.most_examples for task in tasks)
            and all(task.config == first.config for task in tasks)
        )

    def steps_of(self, task: LocalTask) -> int:
        """Return the number of steps of a fit that is not stopped early."""
        return self.training.local_epochs * (len(self._cuts(task)) - 1)

    def _cuts(self, task: LocalTask) -> list[int]:
        """Return the first rows of the batches of a pass, and the end of the last batch."""
        return self._cut_up(len(task.indices), self.training.batch_size, task, "training.batch_size")

    def _cut_up(self, count: int, size: int, task: LocalTask, setting: str) -> list[int]:
        """Return where parts of `size` of so many examples begin, and where the last ends; none is too small a step."""
        cuts = [*range(0, count, size), count]
        if count > 1 and cuts[-1] - cuts[-2] == 1 and not self.model.takes_one(task.train):
            if size == 1:
                why = "the module cannot be trained on one example alone, as it normalizes over a batch: use 2 or more"
                raise SettingError(setting, size, why)
            del cuts[-2]
        return cuts

    def _named_by(self, patterns: str) -> set[str]:
        """Return the names of the trained parameters that decay."""
        found = named_by("training.decayed", patterns, self.model.module).intersection(self.model.names)
        if not found:
            raise SettingError("training.decayed", patterns, "nothing that it names is trained: name what is to decay")
        return found

    def _with_decay(self, parameters: Sequence[Tensor]) -> list[tuple[Tensor, bool]]:
        """Return each parameter, with whether ``training.weight_decay`` applies to it.

        They are all parameters, in their order, also those of several nodes in one computation; or some of the model's.
        """
        if self._decayed is None:
            return [(each, True) for each in parameters]
        of_model = self.model.parameters if len(parameters) != len(self.model.names) else parameters
        names = {id(each): name for each, name in zip(of_model, self.model.names, strict=True)}
        return [(each, names[id(each)] in self._decayed) for each in parameters]

    def _is_alone(self, task: LocalTask) -> bool:
        """Return whether the node has one example alone, which normalization layers treat as in an evaluation."""
        return len(task.indices) == 1 and not self.model.takes_one(task.train)
