"""What a torch module learns: a loss that is made smaller, and what is measured on examples.

Which one it is follows from the data; ``model.loss`` names another: a function (outputs, targets) -> mean loss, as
those of `torch.nn.functional`, or an `Objective` with metrics of its own. Both are given the outputs as the module
returns them, a mapping or tuple too. Which axes belong to which says `fedlearn.models.axes`.

Shapes: B batch, K classes, L length of a sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedlearn import plugins
from fedlearn.data.base import DataSpec
from fedlearn.models.axes import are_alike, class_axes, learns_images, logits_of, wrong_shape
from fedlearn.models.base import confusion_of
from fedlearn.plugging.registry import Registry
from fedlearn.words.errors import SettingError
from fedlearn.words.metric import ACCURACY, ALL_RIGHT, LOSS, MAE, MSE
from fedlearn.words.metrics import LABELS, LANGUAGE, NEURAL_CLASSIFIER, NEURAL_REGRESSOR, Metrics  # fmt: skip

Loss = Callable[[Any, Tensor], Tensor]


class Objective:
    """A loss and what is measured; derive from it, or from one of those below, and override what differs.

    Parameters
    ----------
    spec : DataSpec
        Of the data.
    loss : callable, optional
        (outputs, targets) -> mean loss, in place of `loss`.
    """

    metrics: Metrics

    def __init__(self, spec: DataSpec, loss: Loss | None = None) -> None:
        self.spec = spec
        self.own_loss = loss
        if loss is not None:
            self.metrics = self.metrics.of_other_loss()

    def targets(self, targets: NDArray[Any]) -> Tensor:
        """Return what is to be learned of a batch, as `loss` and `measure` are given it."""
        return torch.from_numpy(targets)

    def why_not(self, outputs: Any, targets: Tensor) -> str:
        """Return why the outputs do not fit the targets; empty if they do. Asked once, before the first round."""
        return ""

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        """Return what a step makes smaller: a mean over the batch."""
        raise NotImplementedError(f"{type(self).__name__} has no loss")

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        """Return the sums over the batch of what `metrics` says is evaluated."""
        raise NotImplementedError(f"{type(self).__name__} measures nothing")

    def confusion(self, outputs: Any, targets: Tensor) -> NDArray[np.int64] | None:
        """Return (K, K) how often each class was taken for each in the batch; None where that means nothing."""
        return None

    def metrics_of(self, outputs: Any, targets: Tensor) -> Metrics:
        """Return what of `metrics` can be measured of such outputs."""
        return self.metrics


class Classification(Objective):
    """Cross-entropy in nats of (B, K) logits and (B,) labels; of labels at several places, of (B, K, ...) and (B, ...).

    Attributes
    ----------
    class_axis
        1 or -1, where a module says on which axis of its outputs the classes stand; None where the shape says it.
    """

    metrics = NEURAL_CLASSIFIER
    class_axis: int | None = None

    @property
    def has_own_loss(self) -> bool:
        """Whether the loss is none of ours: what it makes of the outputs is its own affair."""
        return self.own_loss is not None or type(self).loss is not Classification.loss

    def why_not(self, outputs: Any, targets: Tensor) -> str:
        """Return what is wrong with the outputs: their shape, or fewer of them than there are classes."""
        logits = logits_of(outputs) if self.has_own_loss else outputs
        if not isinstance(logits, Tensor):
            return "" if self.has_own_loss else _no_tensor(outputs)
        axes = class_axes(logits.shape, targets.shape, self.spec.classes)
        if len(axes) > 1 and self.class_axis is None:
            shapes = f"its outputs have shape {tuple(logits.shape)} and the targets {tuple(targets.shape)}"
            where = "the classes may stand second, as in torch's cross_entropy, or last"
            return f"{shapes}: {where}: say class_axis = 1 (second) or -1 (last) in its class"
        return "" if axes or self.has_own_loss else self._wrong(logits, targets)

    def metrics_of(self, outputs: Any, targets: Tensor) -> Metrics:
        """Return what is measured: where the outputs of a loss of one's own are no logits, the loss alone."""
        return self.metrics if self._logits(outputs, targets) is not None else self.metrics.of_loss_alone()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy."""
        if self.own_loss is not None:
            return self.own_loss(outputs, targets)
        return functional.cross_entropy(*self._flat(outputs, targets))

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        """Return loss and number of right answers; of several labels, the mean loss and the share of right answers."""
        own = {} if self.own_loss is None else {LOSS.name: self.own_loss(outputs, targets).item() * len(targets)}
        logits = self._logits(outputs, targets) if self.has_own_loss else outputs
        if logits is None:
            return own
        labels_each = targets.numel() // len(targets)
        logits, labels = self._flat(logits, targets)
        loss = own or {LOSS.name: functional.cross_entropy(logits, labels, reduction="sum").item() / labels_each}
        return {**loss, ACCURACY.name: int((logits.argmax(1) == labels).sum()) / labels_each}

    def confusion(self, outputs: Any, targets: Tensor) -> NDArray[np.int64] | None:
        """Return how often each class was taken for each; None of tokens, and where an example has not one label."""
        if targets.ndim != 1 or targets.is_floating_point() or self.spec.vocabulary == self.spec.classes:
            return None
        logits = self._logits(outputs, targets)  # None: of an objective derived from this one, or of its own loss
        if logits is None:
            return None
        guess = logits.argmax(1).masked_fill(logits.isnan().any(1), -1)  # NaN is no answer
        return confusion_of(targets.cpu().numpy(), guess.cpu().numpy(), self.spec.classes)

    def _logits(self, outputs: Any, targets: Tensor) -> Tensor | None:
        """Return the logits among the outputs of a loss of one's own; None where none fit the targets."""
        logits = logits_of(outputs)
        fits = isinstance(logits, Tensor) and class_axes(logits.shape, targets.shape, self.spec.classes)
        return logits if fits else None

    def _flat(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits and labels of several places as those of single examples."""
        if targets.ndim == 1:
            return logits, targets
        axes = class_axes(logits.shape, targets.shape, self.spec.classes)
        axis = self.class_axis if self.class_axis is not None else axes[0] if axes else None
        if axis not in axes:
            raise ValueError(self._wrong(logits, targets))
        assert axis is not None
        return logits.movedim(axis, -1).flatten(0, -2), targets.flatten()

    def _wrong(self, logits: Tensor, targets: Tensor) -> str:
        return wrong_shape(logits, targets, (len(targets), self.spec.classes, *targets.shape[1:]))


class NextToken(Classification):
    """Cross-entropy of the token that comes next, after each one of a sequence or after the last."""

    metrics = LANGUAGE


class Regression(Objective):
    """Squared error of (B, ...) numbers; where their bounds are declared, from -1 to 1 in the loss.

    What is measured is in the unit of the targets. A loss of one's own is what runs are judged by, unless it is known
    to compare numbers: of outputs that are logits of it, an error in the unit of the targets would say nothing.
    """

    metrics = NEURAL_REGRESSOR

    def __init__(self, spec: DataSpec, loss: Loss | None = None) -> None:
        super().__init__(spec, loss)
        low, high = spec.target_bounds or (-1.0, 1.0)
        self.center, self.unit = (low + high) / 2, (high - low) / 2
        self.takes_any = loss is not None and not is_one_of(LOSSES_OF_NUMBERS, loss)
        if self.takes_any:
            self.metrics = self.metrics.judged_by_loss()

    def targets(self, targets: NDArray[Any]) -> Tensor:
        """Return the numbers, (B, ...) float32; an image as a module is given it."""
        numbers = torch.from_numpy((targets - self.center) / self.unit).to(torch.float32)
        return numbers.permute(0, 3, 1, 2) if learns_images(self.spec) else numbers

    def why_not(self, outputs: Any, targets: Tensor) -> str:
        """Return what is wrong with the shape of the outputs; axes of length 1 may be too many or missing."""
        if self.takes_any or type(self).loss is not Regression.loss:
            return ""
        return _why_not_alike(outputs, targets)

    def metrics_of(self, outputs: Any, targets: Tensor) -> Metrics:
        """Return what is measured: where the outputs of a loss of one's own are no such numbers, the loss alone."""
        return self.metrics.of_loss_alone() if self.takes_any and _why_not_alike(outputs, targets) else self.metrics

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        """Return the mean squared error."""
        loss = self.own_loss or functional.mse_loss
        as_it_is = self.takes_any and _why_not_alike(outputs, targets)
        return loss(outputs if as_it_is else _shaped(outputs, targets), targets)

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        """Return absolute and squared error in the unit of the targets, each the mean over an example's numbers."""
        own = {LOSS.name: self.loss(outputs, targets).item() * len(targets)} if self.takes_any else {}
        if own and _why_not_alike(outputs, targets):
            return own
        error = (_shaped(outputs, targets) - targets).reshape(len(targets), -1).double() * self.unit
        return {**own, MAE.name: error.abs().mean(1).sum().item(), MSE.name: error.square().mean(1).sum().item()}


class Labels(Objective):
    """Several labels an example, each there or not: a binary cross-entropy of (B, ...) outputs and (B, ...) targets.

    Parameters
    ----------
    loss : callable
        The binary cross-entropy; of logits, or of probabilities.
    """

    metrics = LABELS

    def __init__(self, spec: DataSpec, loss: Loss) -> None:
        super().__init__(spec, loss)
        self.threshold = 0.5 if is_one_of(OF_PROBABILITIES, loss) else 0.0

    def targets(self, targets: NDArray[Any]) -> Tensor:
        """Return 1 for each label that is there, else 0, (B, ...) float32; an image as a module is given it."""
        labels = torch.from_numpy(targets).to(torch.float32)
        return labels.permute(0, 3, 1, 2) if learns_images(self.spec) else labels

    def why_not(self, outputs: Any, targets: Tensor) -> str:
        """Return what is wrong with the shape of the outputs; axes of length 1 may be too many or missing."""
        return _why_not_alike(outputs, targets)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        """Return the mean binary cross-entropy."""
        assert self.own_loss is not None
        return self.own_loss(_shaped(outputs, targets), targets)

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        """Return the loss, the share of right labels, and how many examples have all of them right."""
        right = ((_shaped(outputs, targets) > self.threshold) == (targets > 0.5)).reshape(len(targets), -1)
        return {
            LOSS.name: self.loss(outputs, targets).item() * len(targets),
            ACCURACY.name: right.double().mean(1).sum().item(),
            ALL_RIGHT.name: int(right.all(1).sum()),
        }


LOSSES_OF_NUMBERS = (
    functional.l1_loss, functional.mse_loss, functional.smooth_l1_loss, functional.huber_loss,
    nn.L1Loss, nn.MSELoss, nn.SmoothL1Loss, nn.HuberLoss,
)  # fmt: skip
OF_PROBABILITIES = (functional.binary_cross_entropy, nn.BCELoss)
LOSSES_OF_LABELS = (
    functional.binary_cross_entropy_with_logits, functional.multilabel_soft_margin_loss,
    nn.BCEWithLogitsLoss, nn.MultiLabelSoftMarginLoss, *OF_PROBABILITIES,
)  # fmt: skip
CROSS_ENTROPIES = (functional.cross_entropy, nn.CrossEntropyLoss)


def is_one_of(losses: tuple[Any, ...], loss: Any) -> bool:
    """Return whether a loss is one of torch's, as a function, a module, or with some of its parameters given."""
    while isinstance(loss, partial):
        loss = loss.func
    return any(loss is each or (isinstance(each, type) and isinstance(loss, each)) for each in losses)


def _no_tensor(outputs: object) -> str:
    kind = type(outputs).__name__
    return f"it returns a {kind}, which should be one tensor: return that alone, or take a model.loss of yours"


def _why_not_alike(outputs: Any, targets: Tensor) -> str:
    if not isinstance(outputs, Tensor):
        return _no_tensor(outputs)
    return "" if are_alike(outputs.shape, targets.shape) else wrong_shape(outputs, targets, targets.shape)


def _shaped(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return outputs in the shape of the targets."""
    if outputs.shape == targets.shape:
        return outputs
    if why_not := _why_not_alike(outputs, targets):
        raise ValueError(why_not)
    return outputs.reshape(targets.shape)


OBJECTIVES = Registry(
    "model.loss",
    plugins.OBJECTIVES,
)


def objective_for(spec: DataSpec, given: object = "") -> Objective:
    """Return what a module learns from a data set.

    Parameters
    ----------
    given
        Empty: what goes with the data. Else a name in `OBJECTIVES`, a ``module:name``, or the object itself: a class of
        `Objective`; a loss (outputs, targets) -> mean, or the class of a loss module, for what goes with the data.

    Raises
    ------
    SettingError
        Where it is none of these.
    """
    if not given:
        return _of_data(spec)(spec)
    found = OBJECTIVES.load(given) if isinstance(given, str) else given
    if isinstance(found, Objective):
        return found
    if isinstance(found, type) and issubclass(found, Objective):
        return found(spec)
    if isinstance(found, type) and issubclass(found, nn.Module):
        found = found()
    if not callable(found) or isinstance(found, type):
        raise SettingError("model.loss", given, "it is neither a function (outputs, targets) nor an Objective")
    if is_one_of(LOSSES_OF_LABELS, found):
        return Labels(spec, found)
    return _of_data(spec)(spec, found)


def _of_data(spec: DataSpec) -> type[Classification | Regression]:
    if not spec.classes:
        return Regression
    return NextToken if spec.vocabulary == spec.classes else Classification
