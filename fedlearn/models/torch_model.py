"""A torch module as a Model: the only seam between torch tensors and our named arrays.

All float32 parameters are views of one flat buffer, and images come as (B, H, W, C) bytes whose permutation to
(B, C, H, W) is already in torch's channels_last format: convolutions on the CPU are some 10 % faster on it, and no
copy is needed to get there.

Elsewhere than on the CPU (``engine.device``) a state is copied to the device and back: what is stored and sent are
arrays of this machine's memory, whatever has computed them. What is measured is so in that memory, too.

Shapes: B batch, C channels, H height, W width, K classes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from copy import deepcopy
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parameter import UninitializedParameter

from fedlearn.config import RunConfig
from fedlearn.config.tables.learning import Precision
from fedlearn.data.base import DataSpec, Examples
from fedlearn.models.base import NOTHING, Evaluation
from fedlearn.models.beside import Beside
from fedlearn.models.device import CPU, device_of, enter, seed_torch
from fedlearn.models.inputs import inputs_of
from fedlearn.models.objectives import Classification, Objective, objective_for
from fedlearn.models.process import prepare_to_train
from fedlearn.plugging.generators import seeded_globals
from fedlearn.words.metrics import Metrics
from fedlearn.words.seeding import seed_for
from fedlearn.words.state import Array, State, UpdateKind, is_never_negative

NUMBERS = {
    torch.float16, torch.float32, torch.float64, torch.bool,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
}  # fmt: skip
OVER_A_BATCH = nn.modules.batchnorm._NormBase
NORMS = (nn.modules.batchnorm._BatchNorm, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
MOST_RESIDENT = 8 << 30  # bytes of examples that are kept in a GPU's memory; a tenth of what large ones have
MADE = 0  # seed of what a module draws when it is made, and keeps in no state
EVALUATION_BATCH = 100  # examples; larger batches push activations out of the cache (1.3-1.7 times slower)


class TorchModel:
    """A torch module, and what it learns.

    Parameters
    ----------
    build : callable
        Called without arguments; returns a new module. What goes into it says `fedlearn.models.inputs`, what has to
        come out of it the objective: (B, K) logits of classes.
    spec : DataSpec
        Of the data.
    objective : Objective, optional
        Its loss, and what is measured; unless given, what goes with the data.

    Attributes
    ----------
    parameters, names
        Those that are trained, and what they are called in the state.
    inputs
        Makes a batch of examples the numbers that the module is given, on its device.
    device
        Where the module is computed.
    precision
        In which numbers the module is computed, as ``training.precision`` says.

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
        self._build = build
        self._takes_one: bool | None = None
        self._seed = 0  # of what is drawn while examples are measured
        with seeded_globals(MADE):  # the same numbers, in each process, for what is in no state
            self.module = self._fresh()
        _check_numbers(self.module)
        self.objective = objective or objective_for(spec)
        _check_memory(self.module)
        self.on(CPU)

    def on(self, device: torch.device) -> None:
        """Compute on a device from now on."""
        enter(device)
        self.device = device
        self._resident: tuple[Examples, Tensor] | None = None  # examples, and their inputs on the device
        self.inputs = inputs_of(self.spec, device)
        self.module.to(device)
        self._parts = tuple(self.module.modules())
        held = self.module.state_dict(keep_vars=True)
        own = {id(each): name for name, each in reversed(held.items())}  # of several names of one tensor the first
        trained = [each for each in self.module.named_parameters() if each[1].requires_grad]
        self.names = [own.get(id(each), name) for name, each in trained]
        self.tied = {name: own[id(each)] for name, each in held.items() if name != own[id(each)]}
        self._rounded = _all_but_of_norms(self.module)
        self.parameters = [each for _, each in trained]
        for dtype in {each.dtype for each in self.parameters}:
            _flatten([each for each in self.parameters if each.dtype is dtype])
        # Views of the module's own memory: parameters and buffers; as arrays where these can be.
        self._tensors = {name: each.detach() for name, each in held.items() if name not in self.tied}
        self._views = {name: tensor.numpy() for name, tensor in self._tensors.items()} if device == CPU else {}
        self._signed = [name for name in self._tensors if is_never_negative(name)]
        stored = {id(each) for each in held.values()}
        kept: list[dict[str, Any]] = [each for part in self._parts for each in (part._parameters, part._buffers)]
        self._places = [(place, name, each) for place in kept for name, each in place.items() if id(each) in stored]
        self.beside = Beside({"": self.module, "objective": self.objective}, without=held.values())

    def planned(self, config: RunConfig) -> Self:
        """Return the model where a run with these settings computes it."""
        self.on(device_of(config.engine.device))
        self.precision = config.training.precision
        self._seed = seed_for(config.seed, purpose="evaluation")
        return self

    @property
    def objective(self) -> Objective:
        """The loss, and what is measured; it goes by the ``class_axis`` of the module, where that has one."""
        return self._objective

    @objective.setter
    def objective(self, objective: Objective) -> None:
        self._objective = objective
        self._metrics: Metrics | None = None
        if isinstance(objective, Classification) and (axis := getattr(self.module, "class_axis", None)) in (1, -1):
            objective.class_axis = axis

    @property
    def metrics(self) -> Metrics:
        """What is measured, as the objective says; with a loss of one's own that hangs on what the module returns."""
        if self._metrics is None:
            is_own = getattr(self.objective, "own_loss", None) is not None
            self._metrics = self._metrics_of_own_loss() if is_own else self.objective.metrics
        return self._metrics

    def _metrics_of_own_loss(self) -> Metrics:
        dtype = np.int64 if self.spec.classes else np.float64
        with suppress(Exception), torch.no_grad(), torch.random.fork_rng(devices=[]):  # the trial says what is wrong
            targets = self.objective.targets(np.zeros((2, *self.spec.target_shape), dtype))
            return self.objective.metrics_of(self._fresh().eval()(self._zeros()), targets)
        return self.objective.metrics

    def initial_state(self, *, seed: int) -> State:
        """Return the module's own initialisation under a seed."""
        with seeded_globals(seed_for(seed, purpose="initial state, not by torch")):
            seed_torch(CPU, seed_for(seed, purpose="initial state"))
            fresh = self._fresh().state_dict()
        return {name: fresh[name].numpy().copy() for name in self._tensors}

    def _fresh(self) -> nn.Module:
        """Return a new module; layers that find out their own size, as `nn.LazyLinear`, are shown two examples."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Lazy modules")
            module = self._build()
        if any(isinstance(each, UninitializedParameter) for each in module.parameters()):
            with torch.no_grad():
                module(self._zeros())
        return module

    def _zeros(self) -> Tensor:
        """Return what a module is given of two examples of zeros."""
        return inputs_of(self.spec)(np.zeros((2, *self.spec.shape), self.spec.dtype))

    def outputs(self, inputs: Tensor) -> Any:
        """Return what the module makes of a batch: float32, whatever it computes in."""
        if self.precision == "float32":
            return self.module(inputs)
        if self.precision == "bfloat16":
            outputs = self._all_in_bfloat16(inputs)
        else:
            with torch.autocast(self.device.type, torch.bfloat16):
                outputs = self.module(inputs)
        return outputs.float() if isinstance(outputs, Tensor) else outputs

    def _all_in_bfloat16(self, inputs: Tensor) -> Any:
        """Return the module's outputs of rounded weights and inputs; gradients go to the weights themselves."""
        rounded = {name: each.to(torch.bfloat16) for name, each in self._rounded.items()}
        inputs = inputs.to(torch.bfloat16) if inputs.is_floating_point() else inputs
        return functional_call(self.module, rounded, (inputs,))

    def train(self) -> None:
        """Put the module into training mode, unless all of its parts are: to set an attribute takes a module long."""
        if not all(part.training for part in self._parts):
            self.module.train()

    def load(self, state: State) -> None:
        """Copy a state into the module, and put back what else it and the objective keep.

        A tensor with several names is stored by the first; where a state has the others, too, the last of them counts.
        """
        self.beside.put_back()
        for name, view in self._views.items():
            np.copyto(view, state[name])
        if not self._views:
            for name, tensor in self._tensors.items():
                tensor.copy_(torch.from_numpy(np.array(state[name])))
        for name, first in self.tied.items():
            if name in state:
                self._tensors[first].copy_(torch.from_numpy(np.array(state[name])))
        for name in self._signed:
            self._tensors[name].clamp_(min=0)
        for parameter in self.parameters:
            parameter.grad = None  # of a learner that adds gradients up there

    def arrays(self) -> State:
        """Return the module's state as arrays; on the CPU they share its memory."""
        for held, name, tensor in self._places:
            if held[name] is not tensor:  # the module has put another one in its place
                _take_over(tensor, held[name], name)
                held[name] = tensor
        return self._views or {name: tensor.cpu().numpy() for name, tensor in self._tensors.items()}

    def tensors_of(self, arrays: Mapping[str, Array]) -> list[Tensor]:
        """Return what arrays hold of each parameter, in the order of `parameters`.

        On the CPU they share memory, unless the array must not be written to.
        """
        return [torch.from_numpy(np.require(arrays[name], requirements="W")).to(self.device) for name in self.names]

    def inputs_at(self, examples: Examples, rows: NDArray[np.integer[Any]]) -> Tensor:
        """Return what the module is given of these rows; a GPU takes them from its own memory, if they fit there.

        Rows that are made when they are asked for stay where they are.
        """
        stored = examples.inputs if isinstance(examples.inputs, np.ndarray) else None
        if self.device == CPU or self.spec.table is not None or stored is None or stored.nbytes > MOST_RESIDENT:
            return self.inputs(examples.inputs[rows])
        if self._resident is None or self._resident[0] is not examples:
            self._resident = examples, torch.from_numpy(np.array(stored)).to(self.device)
        return self.inputs(self._resident[1][torch.from_numpy(rows).to(self.device)])

    def targets(self, targets: NDArray[Any]) -> Tensor:
        """Return what is to be learned of a batch, on the device."""
        return self.objective.targets(targets).to(self.device)

    def try_step(self, examples: Examples) -> object:
        """Compute loss and gradient of a few examples; raises where they do not fit the module, or it them.

        Returns
        -------
        object
            What the module has made of them.
        """
        inputs = self.inputs(np.array(examples.inputs))
        targets = self.targets(np.array(examples.targets))
        with seeded_globals(self._seed, self.beside.generators):
            self.train()
            outputs = self.outputs(inputs)
            if why_not := self.objective.why_not(outputs, targets):
                raise ValueError(why_not)
            loss = self.objective.loss(outputs, targets)
            torch.autograd.grad(loss, self.parameters, materialize_grads=True)
        self.arrays()  # raises where a tensor of the state was replaced by one of another shape
        return outputs

    def takes_one(self, examples: Examples) -> bool:
        """Return whether a step can be taken on one example alone; a norm over a batch needs two. Tried once."""
        if self._takes_one is None:
            self._takes_one = not self._may_need_two() or self._works_on(examples, 1) or not self._works_on(examples, 2)
            self.beside.put_back()
        return self._takes_one

    def _may_need_two(self) -> bool:
        return self.beside.is_foreign or any(isinstance(part, OVER_A_BATCH) for part in self._parts)

    def _works_on(self, examples: Examples, count: int) -> bool:
        """Return whether a copy of the module, in training, makes a finite loss of so many examples."""
        rows = np.arange(count) % len(examples)
        module = self.module
        try:
            self.module = deepcopy(module).train()
            with seeded_globals(MADE), torch.no_grad():
                outputs = self.outputs(self.inputs_at(examples, rows))
                loss = self.objective.loss(outputs, self.targets(examples.targets[rows]))
            return bool(torch.isfinite(loss))
        except Exception:  # of the user's own module; whatever it is, a step on its examples says it
            return False
        finally:
            self.module = module

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return what is measured, in float64 sums over batches of fixed size."""
        self.load(state)
        self.module.eval()
        total = NOTHING
        with torch.inference_mode(), self.drawing(self._seed):
            for start in range(0, len(examples), EVALUATION_BATCH):
                batch = slice(start, start + EVALUATION_BATCH)
                outputs = self.outputs(self.inputs(np.array(examples.inputs[batch])))
                targets = self.objective.targets(np.array(examples.targets[batch]))
                if isinstance(outputs, Tensor):
                    outputs = outputs.cpu()
                else:
                    targets = targets.to(self.device)
                measured = self.objective.measure(outputs, targets)
                if _has_nan(outputs):
                    measured = dict.fromkeys(measured, math.nan)  # it has answered nothing, rightly or not
                total += Evaluation(measured, len(targets), self.objective.confusion(outputs, targets))
        if self.beside.is_foreign:
            self.beside.put_back()
        return total

    def drawing(self, seed: int) -> AbstractContextManager[object]:
        """Seed what code of others may draw from in the block; nothing where all is ours or torch's."""
        return seeded_globals(seed, self.beside.generators) if self.beside.is_foreign else nullcontext()


def _has_nan(outputs: Any) -> bool:
    """Return whether any number that a module has returned is NaN."""
    if isinstance(outputs, Tensor):
        return outputs.is_floating_point() and bool(outputs.isnan().any())
    if isinstance(outputs, Mapping):
        outputs = outputs.values()
    elif not isinstance(outputs, tuple | list):
        return False
    return any(map(_has_nan, outputs))


def _check_numbers(module: nn.Module) -> None:
    """Raise TypeError where a state holds what no array of ours can."""
    for name, each in module.state_dict().items():
        if not isinstance(each, Tensor) or each.dtype not in NUMBERS:
            kind = each.dtype if isinstance(each, Tensor) else type(each).__name__
            raise TypeError(f"{name} is {kind}: a state holds arrays of real numbers of up to 64 bits, no bfloat16")


def _check_memory(module: nn.Module) -> None:
    """Raise TypeError where two parameters lie in one place: each would be trained, sent and averaged for itself."""
    begun: dict[int, str] = {}
    for name, each in module.named_parameters():
        if not each.requires_grad:
            continue
        other = begun.setdefault(each.data_ptr(), name) if each.numel() else name
        if other != name:
            raise TypeError(
                f"{name} and {other} share memory, but are two parameters: make them one, by assigning the parameter "
                "itself and not its .data"
            )


def _take_over(tensor: Tensor, other: Tensor | None, name: str) -> None:
    """Copy what a module has put in the place of a tensor of its state; raise TypeError where it is of another kind."""
    if other is None or other.shape != tensor.shape or not torch.can_cast(other.dtype, tensor.dtype):
        now = "None" if other is None else f"{other.dtype} of shape {tuple(other.shape)}"
        raise TypeError(
            f"{name} was {tensor.dtype} of shape {tuple(tensor.shape)}, and is {now} after a fit: what a state holds "
            "keeps its shape and its kind of numbers"
        )
    tensor.copy_(other.detach())


def _all_but_of_norms(module: nn.Module) -> dict[str, nn.Parameter]:
    """Return the float32 parameters that are no scale or shift of a norm: those are few, and matter."""
    of_norms = {id(each) for part in module.modules() if isinstance(part, NORMS) for each in part.parameters()}
    named = module.named_parameters()
    return {name: each for name, each in named if each.dtype is torch.float32 and id(each) not in of_norms}


def _flatten(parameters: list[nn.Parameter]) -> None:
    """Make all parameters of one kind of numbers views of one flat buffer."""
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
    start = 0
    for parameter in parameters:
        stop = start + parameter.numel()
        parameter.data = flat[start:stop].view_as(parameter)
        start = stop
