"""A torch module as a `Model`: the only place where torch tensors become named arrays and back.

Images come as (B, H, W, C) bytes whose permutation to (B, C, H, W) is already in torch's channels_last format:
convolutions on the CPU are some 10 % faster in it, and it costs no copy. Metrics are computed on the CPU, whatever the
device (``engine.device``).

Shapes: B batch, C channels, H height, W width, K classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedlearn.config import RunConfig
from fedlearn.config.tables.learning_settings import Precision
from fedlearn.core.errors import SettingError
from fedlearn.core.metric import TOKENS
from fedlearn.core.metrics import Metrics
from fedlearn.core.seeding import seed_for
from fedlearn.core.state import Array, State, UpdateKind, is_same
from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.models.model import Evaluation
from fedlearn.models.objectives import Classification, Objective, objective_for
from fedlearn.models.objectives.counted_targets import why_no_mean
from fedlearn.models.output_axes import are_labels
from fedlearn.models.torch.buffers import EXAMPLES, kinds_of
from fedlearn.models.torch.device import CPU, device_of, enter
from fedlearn.models.torch.evaluating import Scoring, evaluate, scores, try_judges
from fedlearn.models.torch.hidden_state import Beside
from fedlearn.models.torch.hooks import LEARNER, STEP, hook_of
from fedlearn.models.torch.inputs import (
    DECODER,
    MASK,
    all_shown,
    inputs_of,
    mask_of,
    padding_of,
    shown,
    takes_labels,
    takes_mask,
)
from fedlearn.models.torch.making import Making
from fedlearn.models.torch.mapped_base import mapped
from fedlearn.models.torch.module_state import (
    BITS,
    NO_BITS,
    ModuleState,
    check_alike,
    check_memory,
    check_numbers,
    fill,
)
from fedlearn.models.torch.parts import parts_of, whole
from fedlearn.models.torch.precision import all_but_of_norms, outputs_in
from fedlearn.models.torch.process import prepare_to_train
from fedlearn.models.torch.trying import takes_one
from fedlearn.plugins.generators import seeded_globals

MOST_RESIDENT = 8 << 30  # bytes of examples that stay in a GPU's memory; a tenth of the memory of a large one
UNTIL_SETTLED = 30  # forward passes after which an auxiliary vector has followed its weight
MADE = 0  # seed of random numbers that a module draws when it is built, and keeps outside of its state


class TorchModel:
    """A torch module with its objective.

    Parameters
    ----------
    build : callable
        Function without arguments that returns a new module. `fedlearn.models.torch.inputs` says what the module gets,
        the objective what it must return: (B, K) logits of classes.
    spec : DataSpec
        Shape, classes and bounds of the data.
    objective : Objective, optional
        Loss and metrics; without one, the objective that follows from the data.

    Attributes
    ----------
    parameters, names
        Trained parameters, and their names in the state.
    tied
        Further names of a tensor -> the name by which the state holds it.
    inputs
        Function that turns a batch of examples into the module's input, on its device.
    padding
        Token that fills texts up, where the module takes an ``attention_mask``; else None.
    is_masked
        Whether the module gets an ``attention_mask``.
    decodes
        Whether the module has an encoder and a decoder, which gets the targets, one place later.
    device
        Device of the module.
    precision
        Numbers in which the module is computed, as ``training.precision`` says.
    parts
        Names of the arrays that are sent, those that each node keeps, and frozen ones, by ``training.send`` and
        ``training.personal``.

    Examples
    --------
    >>> from fedlearn.data.cifar10 import SPEC
    >>> from fedlearn.models.networks.cnn import CNN
    >>> model = TorchModel(lambda: CNN(SPEC), SPEC)
    >>> model.initial_state(seed=1)["fc3.bias"].shape
    (10,)
    """

    update_kind = UpdateKind.DENSE
    learner = "sgd"

    def __init__(self, build: Callable[[], nn.Module], spec: DataSpec, objective: Objective | None = None) -> None:
        prepare_to_train()
        self.spec = spec
        self.precision: Precision = "float32"
        self.scoring = Scoring()
        self._made = Making(build, spec)
        self._takes_one: bool | None = None
        self._initial: tuple[int | None, dict[str, Array]] = (None, {})  # of a large model: to make one takes time
        self._seed = 0  # of random numbers that are drawn in an evaluation
        with seeded_globals(MADE):  # every process draws the same numbers for attributes outside of the state
            self.module = self._made.fresh()
        if hook_of(self.module, STEP):
            self.learner = LEARNER
        check_numbers(self.module)
        self.objective = objective or objective_for(spec, self._loss_of_data())
        check_memory(self.module)
        self.parts = whole(self.module)
        self.on(CPU)

    def _loss_of_data(self) -> object:
        """Return the loss of several labels, of a module that says it has a logit for each (``answers_labels``)."""
        has_labels = are_labels(self.spec) and getattr(self.module, "answers_labels", False)
        return functional.binary_cross_entropy_with_logits if has_labels else ""

    def on(self, device: torch.device) -> None:
        """Move the module to a device, where it is computed from now on."""
        enter(device)
        self.device = device
        self._resident: tuple[Examples, Tensor] | None = None  # examples, and their inputs on the device
        self.inputs = inputs_of(self.spec, device)
        self.module.to(device)
        self._parts = tuple(self.module.modules())
        still = {self.module.get_submodule(name) for name in self.parts.still}
        self._modes = tuple((part, part not in still) for part in self._parts)
        base = self._mapped() if device == CPU else {}
        self._state = ModuleState(self.module, device, self.parts, base)
        self.names, self.parameters, self.tied = self._state.names, self._state.parameters, self._state.tied
        self._rounded = all_but_of_norms(self.module)
        self.padding = padding_of(self.module) if self.spec.vocabulary else None
        self.is_masked = self.padding is not None or (self.spec.hides and takes_mask(self.module))
        self.decodes = len(self.spec.target_shape) == 1 and bool(self.spec.vocabulary) and takes_labels(self.module)
        self.beside = Beside({"": self.module, "objective": self.objective}, without=self._state.stored, kept=base)

    def _mapped(self) -> dict[int, Tensor]:
        """Let large frozen tensors lie in memory once for all processes; return their numbers by id."""
        stored = self.module.state_dict(keep_vars=True)
        return mapped(list({id(stored[name]): stored[name] for name in self.parts.frozen}.values()))

    def planned(self, config: RunConfig) -> Self:
        """Return the model with the parts, the precision and the device of these settings.

        Frozen arrays get the values that they have before round 1.
        """
        training = config.training
        self.parts = parts_of(
            self.module, send=training.send, personal=training.personal, model=config.model.name,
            **kinds_of(self.module, self._made)._asdict(),
        )  # fmt: skip
        if not self.parts.is_whole:
            fill(self.module, self._made.initialized(config.seed))
            self._initial = config.seed, self._sent_of(self.module.state_dict())
        self.on(device_of(config.engine.device))
        self.precision = config.training.precision
        self._seed = seed_for(config.seed, purpose="evaluation")
        self.scoring = Scoring(config.evaluation.scores, config.evaluation.scores_mb)
        self.objective = self._objective  # its metrics have the scores from now on
        return self

    @property
    def objective(self) -> Objective:
        """The loss and the metrics; an objective of classes takes over the ``class_axis`` of the module."""
        return self._objective

    @objective.setter
    def objective(self, objective: Objective) -> None:
        self._objective = objective
        self._metrics: Metrics | None = None
        if isinstance(objective, Classification) and (axis := getattr(self.module, "class_axis", None)) in (1, -1):
            objective.class_axis = axis

    @property
    def metrics(self) -> Metrics:
        """The metrics of the objective; with an own loss they depend on the module's outputs."""
        if self._metrics is None:
            is_own = getattr(self.objective, "own_loss", None) is not None
            found = self.scoring.added_to(self._metrics_of_own_loss() if is_own else self.objective.metrics)
            self._metrics = replace(found, reported=(*found.reported, TOKENS)) if self.spec.hides else found
        return self._metrics

    def _metrics_of_own_loss(self) -> Metrics:
        dtype = np.int64 if self.spec.classes else np.float64
        with (
            suppress(Exception),
            torch.no_grad(),
            torch.random.fork_rng(devices=[]),
        ):  # the trial step shows errors
            targets = self.objective.targets(np.zeros((2, *self.spec.target_shape), dtype))
            return self.objective.metrics_of(self._made.fresh().eval()(self._made.zeros()), targets)
        return self.objective.metrics

    def initial_state(self, *, seed: int) -> State:
        """Return the state of a new module, initialized by itself under a seed: what is sent of it."""
        if seed == self._initial[0]:
            return {name: array.copy() for name, array in self._initial[1].items()}
        return self._sent_of(self._made.initialized(seed))

    def _sent_of(self, tensors: Mapping[str, Tensor]) -> dict[str, Array]:
        for name in self.parts.shared:
            if tensors[name].dtype in BITS:
                raise SettingError("model.name", type(self.module).__name__, NO_BITS.format(name=name))
        return {name: tensors[name].detach().numpy().copy() for name in self.parts.shared}

    @property
    def unsent(self) -> State:
        """The arrays that are never sent, as they are before round 1: frozen and personal ones."""
        return self._state.first

    def hold(self, unsent: State) -> None:
        """Take the arrays that are never sent from another process, in place of those that this one has made.

        Raises
        ------
        Refused
            If they are not of the names, types and shapes of this model, or hold NaN or infinity.
        """
        check_alike(unsent, self.unsent)
        if not is_same(self.unsent, unsent):
            self.beside.put_back()
            self._state.hold(unsent)
            self.beside.take_numbers()

    def auxiliary_of(self, state: State) -> State:
        """Return the auxiliary arrays of a state, computed from its other arrays by forward passes of the module.

        The passes are in training mode, on made-up examples. They begin with the auxiliary arrays of the state.
        """
        self.load(state)
        self.train()
        inputs = self._made.made_up(EXAMPLES, np.random.Generator(np.random.Philox(MADE))).to(self.device)
        with seeded_globals(MADE, self.beside.generators), torch.no_grad():
            for _ in range(UNTIL_SETTLED):
                tokens, named = self.passed(inputs)
                self.module(tokens, **named)
        found = {name: np.array(self.arrays()[name]) for name in self.parts.auxiliary}
        self.beside.put_back()
        return found

    def outputs(self, inputs: Tensor) -> Any:
        """Return the module's outputs for a batch; a tensor is float32, whatever ``training.precision`` says."""
        passed, named = self.passed(inputs)
        return outputs_in(self.precision, self.module, passed, self._rounded, named)

    def passed(self, inputs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return what the module gets of a batch; by keyword the mask of its tokens, and what its decoder gets."""
        named = {}
        if self.decodes:
            inputs, named[DECODER] = inputs.tensor_split([self.spec.shape[0]], 1)
        if self.is_masked:
            named[MASK] = shown(inputs) if self.padding is None or self.spec.hides else mask_of(inputs, self.padding)
        return all_shown(inputs) if self.spec.hides else inputs, named

    def with_targets(self, inputs: Tensor, targets: NDArray[Any]) -> Tensor:
        """Return inputs, followed by the tokens that a decoder gets: the targets one place later (`decodes`)."""
        if not self.decodes:
            return inputs
        tokens = torch.from_numpy(np.array(targets, np.int64)).to(self.device)
        return torch.cat([inputs, self.module.prepare_decoder_input_ids_from_labels(tokens)], 1)  # type: ignore[operator]

    def train(self) -> None:
        """Put the module into training mode, unless it is in it: a module is slow to set attributes."""
        if any(part.training is not wanted for part, wanted in self._modes):
            self.parts.train(self.module)

    def load(self, state: State) -> None:
        """Copy a state into the module, and restore what module and objective keep beside it."""
        self.beside.put_back()
        self._state.load(state)

    def arrays(self) -> State:
        """Return what is not frozen of the module's state as arrays; on the CPU they share its memory."""
        return self._state.arrays()

    def tensors_of(self, arrays: Mapping[str, Array]) -> list[Tensor]:
        """Return the arrays of the trained parameters as tensors, in the order of `parameters`.

        On the CPU tensor and array share memory, unless the array is read-only.
        """
        return [torch.from_numpy(np.require(arrays[name], requirements="W")).to(self.device) for name in self.names]

    def inputs_at(self, examples: Examples, rows: NDArray[np.integer[Any]]) -> Tensor:
        """Return the module's input for some rows; on a GPU stored examples stay in its memory, if they fit.

        Examples that are computed on request are not kept there.
        """
        stored = examples.inputs if isinstance(examples.inputs, np.ndarray) else None
        is_computed = self.spec.table is not None or self.spec.is_made_by_functions or stored is None
        targets = examples.targets[rows]
        if self.device == CPU or is_computed or stored.nbytes > MOST_RESIDENT:
            return self.with_targets(self.inputs(examples.inputs[rows]), targets)
        if self._resident is None or self._resident[0] is not examples:
            self._resident = examples, torch.from_numpy(np.array(stored)).to(self.device)
        return self.with_targets(self.inputs(self._resident[1][torch.tensor(rows, device=self.device)]), targets)

    def targets(self, targets: NDArray[Any]) -> Tensor:
        """Return the targets of a batch as a tensor on the device."""
        return self.objective.targets(targets).to(self.device)

    def tokens_in(self, examples: Examples, rows: NDArray[np.integer[Any]]) -> int:
        """Return the number of tokens in some rows that the mask of the data does not hide; 0 without a mask."""
        return int((examples.inputs[rows] >= 0).sum()) if self.spec.hides else 0

    def try_step(self, examples: Examples) -> object:
        """Compute loss and gradient of a few examples; raise an error where they do not fit the module.

        Returns
        -------
        object
            The module's outputs.
        """
        inputs = self.with_targets(self.inputs(np.array(examples.inputs)), examples.targets)
        targets = self.targets(np.array(examples.targets))
        with seeded_globals(self._seed, self.beside.generators):
            self.train()
            outputs = self.outputs(inputs)
            if why_not := self.objective.why_not(outputs, targets) or why_no_mean(self.objective, outputs, targets):
                raise ValueError(why_not)
            loss = self.objective.loss(outputs, targets)
            torch.autograd.grad(loss, self.parameters, materialize_grads=True)
        self.arrays()  # raises where a tensor of the state was replaced by one of another shape
        return outputs

    def takes_one(self, examples: Examples) -> bool:
        """Return whether a step on a single example works; a norm over a batch needs two. Tried once."""
        if self._takes_one is None:
            self._takes_one = takes_one(self, examples)
        return self._takes_one

    @property
    def is_scored(self) -> bool:
        """Whether something is measured on all outputs of a set at once."""
        return self.scoring.is_wanted(self.objective)

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return the metrics of a state on examples: float64 sums over batches of fixed size, and scores of all."""
        total = self.evaluate_part(state, examples)
        if not total.outputs:
            return total
        return replace(total, outputs=(), scores=self.scores_of(total.outputs, examples.targets))

    def evaluate_part(self, state: State, examples: Examples) -> Evaluation:
        """Return the sums over a part of a set, with its outputs where scores need them."""
        total = evaluate(self, state, examples)
        self._put_back()
        return total

    def scores_of(self, outputs: Sequence[bytes], targets: NDArray[Any]) -> dict[str, float]:
        """Return the scores of a set from the outputs of its parts."""
        found = scores(self, outputs, targets)
        self._put_back()
        return found

    def try_scores(self, outputs: object, *, rows: int, examples: Examples | None = None) -> None:
        """Raise SettingError for scores that cannot be computed of such outputs, of so many, or of the module."""
        if examples is not None:
            try_judges(self, examples)
        if self.is_scored:
            self.scoring.try_on(self.spec, self.objective, outputs, rows=rows)

    def _put_back(self) -> None:
        if self.beside.is_foreign:
            self.beside.put_back()

    def drawing(self, *, is_foreign: bool = False) -> AbstractContextManager[object]:
        """Seed all generators in the block of an evaluation, if module or objective have code not ours or torch's."""
        is_foreign |= self.beside.is_foreign
        return seeded_globals(self._seed, self.beside.generators) if is_foreign else nullcontext()
