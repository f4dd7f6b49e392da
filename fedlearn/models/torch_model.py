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
from contextlib import suppress
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parameter import UninitializedParameter

from fedlearn.config import RunConfig
from fedlearn.config.schema import Precision
from fedlearn.data.base import DataSpec, Examples
from fedlearn.metrics import Metrics
from fedlearn.models.base import NOTHING, Evaluation
from fedlearn.models.device import CPU, device_of, enter, seed_torch
from fedlearn.models.inputs import inputs_of
from fedlearn.models.objectives import Classification, Objective, objective_for
from fedlearn.models.process import prepare_to_train
from fedlearn.seeding import seed_for
from fedlearn.state import Array, State, UpdateKind

NUMBERS = {
    torch.float16, torch.float32, torch.float64, torch.bool,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
}  # fmt: skip
NORMS = (nn.modules.batchnorm._BatchNorm, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
MOST_RESIDENT = 8 << 30  # bytes of examples that are kept in a GPU's memory; a tenth of what large ones have
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
        with torch.random.fork_rng(devices=[]):
            self.module = self._fresh()
        _check_numbers(self.module)
        self.objective = objective or objective_for(spec)
        self.on(CPU)

    def on(self, device: torch.device) -> None:
        """Compute on a device from now on."""
        enter(device)
        self.device = device
        self._resident: tuple[Examples, Tensor] | None = None  # examples, and their inputs on the device
        self.inputs = inputs_of(self.spec, device)
        self.module.to(device)
        self._parts = tuple(self.module.modules())
        trained = [(name, each) for name, each in self.module.named_parameters() if each.requires_grad]
        self.names = [name for name, _ in trained]
        self._rounded = _all_but_of_norms(self.module)
        self.parameters = [each for _, each in trained]
        for dtype in {each.dtype for each in self.parameters}:
            _flatten([each for each in self.parameters if each.dtype is dtype])
        # Views of the module's own memory: parameters and buffers; as arrays where these can be.
        self._tensors: dict[str, Tensor] = self.module.state_dict()
        self._views = {name: tensor.numpy() for name, tensor in self._tensors.items()} if device == CPU else {}

    def planned(self, config: RunConfig) -> Self:
        """Return the model where a run with these settings computes it."""
        self.on(device_of(config.engine.device))
        self.precision = config.training.precision
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
        with torch.random.fork_rng(devices=[]):
            seed_torch(CPU, seed_for(seed, purpose="initial state"))
            fresh = self._fresh().state_dict()
        return {name: tensor.numpy().copy() for name, tensor in fresh.items()}

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
        """Copy a state into the module."""
        for name, view in self._views.items():
            np.copyto(view, state[name])
        if not self._views:
            for name, tensor in self._tensors.items():
                tensor.copy_(torch.from_numpy(np.array(state[name])))

    def arrays(self) -> State:
        """Return the module's state as arrays; on the CPU they share its memory."""
        return self._views or {name: tensor.cpu().numpy() for name, tensor in self._tensors.items()}

    def tensors_of(self, arrays: Mapping[str, Array]) -> list[Tensor]:
        """Return what arrays hold of each parameter, in the order of `parameters`; on the CPU they share memory."""
        return [torch.from_numpy(arrays[name]).to(self.device) for name in self.names]

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
        with torch.random.fork_rng(devices=[]):
            self.train()
            outputs = self.outputs(inputs)
            if why_not := self.objective.why_not(outputs, targets):
                raise ValueError(why_not)
            loss = self.objective.loss(outputs, targets)
            torch.autograd.grad(loss, self.parameters, materialize_grads=True)
        return outputs

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return what is measured, in float64 sums over batches of fixed size."""
        self.load(state)
        self.module.eval()
        total = NOTHING
        with torch.inference_mode():
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
        return total


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
