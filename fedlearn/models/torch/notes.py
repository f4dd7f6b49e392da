"""Notes on a module: likely mistakes that the trial before round 1 finds, one line each.

A note changes no result: the run goes on as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from math import isclose

import numpy as np
import torch
from torch import Tensor

from fedlearn.core.adapters import pairs_of
from fedlearn.core.metric import ACCURACY
from fedlearn.core.state import is_running, layout_of
from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.kernels import PooledConv2d
from fedlearn.models.model import Evaluation
from fedlearn.models.objectives import CROSS_ENTROPIES, Classification, Labels, Objective, is_one_of
from fedlearn.models.output_axes import class_axes, logits_of, named_logits
from fedlearn.models.torch.buffers import own_buffers
from fedlearn.models.torch.hooks import LEARNER, OPTIMIZERS, STEP, hook_of, not_called
from fedlearn.models.torch.parts import listed
from fedlearn.models.torch.torch_model import TorchModel
from fedlearn.plugins.extras import MissingExtra
from fedlearn.plugins.tables import ADAPTERS, SCALARS

LOOKED_AT = 32  # examples on which metrics are compared
UNLIKE = 100  # ratio of the largest to the smallest column from which one step size does not suit both
UNLIKE_TARGETS = 10  # the same of targets, whose squares make up one error
ROUNDED = 1e-2  # tolerance of a sum of probabilities, in bfloat16 too
NO_ARITHMETIC = ("View", "Unsafe", "Reshape", "Squeeze", "Unsqueeze", "Permute", "Transpose", "TBackward", "ToCopy")
OF_SOFTMAX = (
    "its outputs are probabilities, >= 0 with a sum of 1: cross-entropy takes logits and has a softmax of its own: "
    "leave out that of the module"
)
OF_SIGMOID = "its outputs come from a sigmoid: {} takes logits: leave out the sigmoid of the module"
SAME = 1e-3  # relative difference that two orders of a sum may have


def notes_on(model: TorchModel, examples: Examples, outputs: object, *, learner: str) -> Iterator[str]:
    """Yield a line for each likely mistake.

    Parameters
    ----------
    examples
        At most `LOOKED_AT` examples.
    outputs
        The module's outputs for the first of them.
    learner
        Name of the learner; one from outside may call any method of the module.
    """
    yield from _slow_convolutions(model)
    yield from _hooks(model, learner)
    yield from _taken_of(model, outputs)
    yield from _probabilities(model, logits_of(outputs))
    yield from _measured_of_nothing(model)
    yield from _no_sums(model, examples, outputs)


def _slow_convolutions(model: TorchModel) -> Iterator[str]:
    if find_spec("numba") is None and any(isinstance(each, PooledConv2d) for each in model.module.modules()):
        yield (
            "torch computes the convolutions, in about twice the time and with other last bits than our compiled ones: "
            f"{MissingExtra('numba')}"
        )


def notes_on_parts(model: TorchModel, *, is_measured_on_server: bool) -> Iterator[str]:
    """Yield a line on what is not sent, where that is anything, and on what follows from it."""
    parts, sizes = model.parts, {name: array.size for name, array in model.unsent.items()}
    if parts.is_whole:
        return
    sent = sum(model.arrays()[name].size for name in parts.shared)
    frozen = [name for name in parts.frozen if name not in parts.constant]
    named = {"frozen": frozen, "constant": parts.constant, "personal": parts.personal}
    counts = {kind: sum(sizes[name] for name in names) for kind, names in named.items()}
    kinds = [f"{count:,} {kind}" for kind, count in counts.items() if count]
    yield f"{sent:,} entries of the model are sent, not {' and '.join(kinds)} ones (training.send, training.personal)"
    if parts.left_out:
        yield f"training.send does not name {listed(parts.left_out)}: they are frozen, too"
    if parts.still:
        yield f"{listed(parts.still)}: frozen norms are computed by the running statistics that they hold"
    if parts.personal and is_measured_on_server:
        yield (
            "the server measures the model with personal layers as they were at first: evaluation.nodes measures "
            "clients with their own"
        )


def notes_on_adapters(model: TorchModel, *, strategy: str) -> Iterator[str]:
    """Yield a line where a strategy averages the factors of adapters apart."""
    sent = {name: array for name, array in model.arrays().items() if name in model.parts.shared}
    if strategy not in {**ADAPTERS, **SCALARS} and ":" not in strategy and (pairs := pairs_of(layout_of(sent))):
        yield (
            f"strategy {strategy!r} averages the factors A and B of {len(pairs)} adapters apart, which is not the mean "
            "of their products: 'flexlora', 'flora' and 'ffa-lora' average products, and 'fedit' measures the error"
        )


def notes_on_buffers(model: TorchModel) -> Iterator[str]:
    """Yield a line that says what is done with each of the module's own buffers, where it has any."""
    parts = model.parts
    running = [name for name in own_buffers(model.module) if name in parts.shared and name not in parts.auxiliary]
    kinds = {
        "averaged, as passes change them": running,
        "constant, as no pass changes them, and not sent": parts.constant,
        "computed by the module from each new state": parts.auxiliary,
    }
    if found := [f"{listed(names)}: {kind}" for kind, names in kinds.items() if names]:
        trained = sum(name in parts.shared for name in model.names)
        yield f"{trained} arrays of the model are trained and averaged; of its buffers {'; '.join(found)}"


def clipped_statistics(model: TorchModel, *, clip: float) -> Iterator[str]:
    """Yield a line on running statistics, where a secure sum clips every change of an entry."""
    if running := [name for name in model.parts.shared if is_running(name)]:
        yield (
            f"{listed(running)}: running statistics move by at most {clip:g} a round, as any entry of a secure sum "
            "(secure.clip): a GroupNorm has none"
        )


def unlike_columns(spec: DataSpec, examples: Examples) -> Iterator[str]:
    """Yield a line if columns differ much in scale; declared tables are not read, as they may be private."""
    if spec.table is not None or spec.mean or spec.dtype != "float32" or len(spec.shape) != 1:
        return
    largest = np.abs(np.asarray(examples.inputs)).max(axis=0)
    known = np.flatnonzero(largest > 0)
    if not len(known):
        return
    least, most = known[largest[known].argmin()], known[largest[known].argmax()]
    if largest[most] > UNLIKE * largest[least]:
        high, low = (repr(spec.feature_names[place]) if spec.feature_names else place for place in (most, least))
        yield (
            f"columns of unlike scale: column {high} reaches {largest[most]:.3g}, column {low} {largest[least]:.3g} "
            "(from 0): they are taken as they are; standardize them, or give mean= and std= of each to from_arrays"
        )


def unlike_targets(spec: DataSpec, examples: Examples) -> Iterator[str]:
    """Yield a line if several numbers that are learned differ much in scale, so that the largest makes up the error."""
    if spec.table is not None or spec.classes or len(spec.target_shape) != 1 or spec.target_mean:
        return
    largest = np.abs(np.asarray(examples.targets)).max(axis=0)
    least, most = largest.argmin(), largest.argmax()
    if largest[most] > UNLIKE_TARGETS * largest[least]:
        high, low = (repr(spec.target_names[place]) if spec.target_names else place for place in (most, least))
        yield (
            f"targets of unlike scale: {high} reaches {largest[most]:.3g}, {low} {largest[least]:.3g}: the loss is "
            "that of the largest: declare their ranges (bounds=, target_bounds= of from_frame), or divide them"
        )


def _hooks(model: TorchModel, learner: str) -> Iterator[str]:
    """Yield a line on the hooks of Lightning that a module has: which are called."""
    module, name = model.module, type(model.module).__name__
    found = [hook for hook in (STEP, OPTIMIZERS) if hook_of(module, hook)]
    if not found or ":" in learner:
        return
    are = f"{' and '.join(found)}, which {'is' if len(found) == 1 else 'are'}"
    if learner != LEARNER:
        yield f"{name} has {are} not called: it is trained by model.loss and training.optimizer"
        return
    not_read = "; training.lr, optimizer, momentum and weight_decay are not read" if len(found) > 1 else ""
    others = "".join(f", {hook}" for hook in not_called(module))
    yield (
        f"{name} is trained by its {' and '.join(found)}{not_read}; not called: self.log{others}; it is measured by "
        "its forward with model.loss and evaluation.scores"
    )


def _taken_of(model: TorchModel, outputs: object) -> Iterator[str]:
    """Yield a line on outputs with logits, as of `transformers`, of which the loss is none of a user's own."""
    is_known = type(model.objective).__module__.startswith("fedlearn.")
    own = getattr(getattr(model.objective, "own_loss", None), "__module__", "torch")
    if named_logits(outputs) is not outputs and is_known and own.startswith("torch"):
        hidden = "what the mask of the data hides" if model.spec.hides else f"token {model.padding}"
        mask = f"; its attention_mask hides {hidden}" if model.is_masked else ""
        yield (
            f"its outputs are a {type(outputs).__name__}: its logits are taken, with model.loss; it gets no labels, "
            f"and a loss of its own is not used{mask}"
        )


def _probabilities(model: TorchModel, outputs: object) -> Iterator[str]:
    """Yield a line if a loss of logits gets probabilities."""
    objective = model.objective
    if not isinstance(outputs, Tensor):
        return
    if isinstance(objective, Labels):
        if objective.threshold == 0 and _comes_from_sigmoid(outputs):
            yield OF_SIGMOID.format("binary cross-entropy of logits")
    elif isinstance(objective, Classification) and type(objective).loss is Classification.loss:
        if objective.own_loss is not None and not is_one_of(CROSS_ENTROPIES, objective.own_loss):
            return
        if _add_up_to_1(outputs.detach(), model):
            yield OF_SOFTMAX
        elif _comes_from_sigmoid(outputs):
            yield OF_SIGMOID.format("cross-entropy")


def _add_up_to_1(outputs: Tensor, model: TorchModel) -> bool:
    """Return whether the outputs are at least 0, and sum to 1 over the classes."""
    axes = class_axes(outputs.shape, (len(outputs), *model.spec.target_shape), model.spec.classes)
    is_one = (bool(((outputs.sum(axis) - 1).abs() < ROUNDED).all()) for axis in axes)
    return bool((outputs >= 0).all()) and any(is_one)


def _comes_from_sigmoid(outputs: Tensor) -> bool:
    """Return whether the last computation was a sigmoid: logits may lie between 0 and 1 by chance."""
    last = outputs.grad_fn
    while last is not None and last.name().startswith(NO_ARITHMETIC):
        last = last.next_functions[0][0]
    return last is not None and last.name().startswith("Sigmoid")


def _measured_of_nothing(model: TorchModel) -> Iterator[str]:
    is_wanted = ACCURACY in model.objective.metrics.evaluated
    if is_wanted and ACCURACY not in model.metrics.evaluated:
        yield (
            "accuracy is not measured: what the module returns for model.loss has not the shape of logits of "
            f"{model.spec.classes} classes: runs are judged by the loss"
        )


def _no_sums(model: TorchModel, examples: Examples, outputs: object) -> Iterator[str]:
    """Yield a line for each metric that is no sum over examples, so that its value depends on the batches.

    The metric of all examples is compared with that of two halves, on random outputs: an untrained model may return
    equal outputs for all examples, on which every metric is a sum.
    """
    objective = model.objective
    is_ours = type(objective).measure.__module__.startswith("fedlearn.")
    has_own_loss = getattr(objective, "own_loss", None) is not None
    if (is_ours and not has_own_loss) or not isinstance(outputs, Tensor) or len(examples) < 4:
        return
    targets = objective.targets(np.array(examples.targets))
    half = len(targets) // 2
    found: dict[str, tuple[float, float]] = {}
    for draw in (torch.rand, torch.randn):
        with suppress(Exception), torch.inference_mode():
            drawn = draw((len(targets), *outputs.shape[1:]), generator=torch.Generator().manual_seed(1))
            found |= _unequal(objective, drawn, targets, half)
    for name, (whole, halves) in found.items():
        yield (
            f"{name} is no sum over examples: of {len(targets)} at once it is {whole:.4g}, of two halves {halves:.4g} "
            "together: what is shown hangs on how the test examples are cut into batches"
        )


def _unequal(objective: Objective, outputs: Tensor, targets: Tensor, half: int) -> dict[str, tuple[float, float]]:
    """Return each metric of all examples, and of two halves together, where the two differ."""
    whole, one, other = (
        Evaluation(sums, part.stop - part.start, weights=weights)
        for part in (slice(0, len(targets)), slice(0, half), slice(half, len(targets)))
        for sums, weights in [objective.evaluated(outputs[part], targets[part])]
    )
    halves = (one + other).means
    found = {name: (float(value), float(halves[name])) for name, value in whole.means.items()}
    return {n: (a, b) for n, (a, b) in found.items() if np.isfinite([a, b]).all() and not isclose(a, b, rel_tol=SAME)}
