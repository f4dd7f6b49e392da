"""Objectives of classes: cross-entropy with one label per example, or one label at each of several places."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from fedlearn.core.metric import ACCURACY, LOSS
from fedlearn.core.metrics import LANGUAGE, NEURAL_CLASSIFIER, Metrics
from fedlearn.data.data_spec import IGNORED, DataSpec
from fedlearn.models.model import confusion_of
from fedlearn.models.objectives.counted_targets import (
    counts,
    cross_entropy_sum,
    divides_by_all,
    is_torchs,
    made_up,
    options_of,
    weights_of,
)
from fedlearn.models.objectives.objective import Loss, Objective, no_tensor
from fedlearn.models.objectives.torch_losses import CROSS_ENTROPIES, LOG_LIKELIHOODS, is_one_of
from fedlearn.models.output_axes import class_axes, logits_of, named_logits, with_logits, wrong_shape
from fedlearn.models.predicted import Predicted
from fedlearn.models.scores.metric_inputs import Predictions, of_classes


class Classification(Objective):
    """Cross-entropy in nats of (B, K) logits and (B,) labels; or of (B, K, ...) and (B, ...) at several places.

    Attributes
    ----------
    class_axis
        Axis of the outputs on which the classes stand, 1 or -1, as the module's ``class_axis`` says; None: the shape
        says it.

    Examples
    --------
    >>> from fedlearn.data.cifar10 import SPEC
    >>> round(Classification(SPEC).loss(torch.zeros(2, 10), torch.tensor([0, 1])).item(), 4)
    2.3026
    """

    metrics = NEURAL_CLASSIFIER
    class_axis: int | None = None

    def __init__(self, spec: DataSpec, loss: Loss | None = None) -> None:
        super().__init__(spec, loss)
        self.options = options_of(loss)
        self.is_torchs = is_torchs(loss) and is_one_of((*CROSS_ENTROPIES, *LOG_LIKELIHOODS), loss)
        weight = self.options.get("weight")
        self.ignores = self.options.get("ignore_index", IGNORED) >= 0 or (weight is not None and not weight.all())

    @property
    def has_own_loss(self) -> bool:
        """Whether the loss is the user's own: then the shape of the outputs is not checked."""
        return self.own_loss is not None or type(self).loss is not Classification.loss

    def why_not(self, outputs: Any, targets: Tensor) -> str:
        """Return what is wrong with the outputs: their shape, or fewer logits than classes; empty if nothing is."""
        logits = logits_of(outputs) if self.has_own_loss else named_logits(outputs)
        if not isinstance(logits, Tensor):
            return "" if self.has_own_loss else no_tensor(outputs)
        axes = class_axes(logits.shape, targets.shape, self.spec.classes)
        if len(axes) > 1 and self.class_axis is None:
            shapes = f"its outputs have shape {tuple(logits.shape)} and the targets {tuple(targets.shape)}"
            where = "the classes may stand second, as in torch's cross_entropy, or last"
            return f"{shapes}: {where}: say class_axis = 1 (second) or -1 (last) in its class"
        return "" if axes or self.has_own_loss else self._wrong(logits, targets)

    def metrics_of(self, outputs: Any, targets: Tensor) -> Metrics:
        """Return the metrics; only the loss where the user has an own loss and the outputs are no logits."""
        return self.metrics if self._logits(outputs, targets) is not None else self.metrics.of_loss_alone()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy; 0, without a gradient, of a batch in which no target counts."""
        if self.own_loss is None:
            logits, labels = self.flat(named_logits(outputs), targets)
            if targets.ndim == 1:
                return functional.cross_entropy(logits, labels)
            has_any = (labels != IGNORED).any()
            return functional.cross_entropy(logits, labels.where(has_any, 0)) * has_any
        if not is_one_of(CROSS_ENTROPIES, self.own_loss):
            return self.own_loss(outputs, targets)
        logits = named_logits(outputs)
        if self.ignores and not bool(weights_of(targets, self.options).any()):
            return logits.sum() * 0  # type: ignore[no-any-return]
        return self.own_loss(logits, targets)

    def divisor(self, targets: Tensor) -> float:
        """Return what the mean of `loss` divides by: the weight of the labels that count; examples, of an own loss."""
        if self.has_own_loss and not self.is_torchs:
            return super().divisor(targets)
        return float(weights_of(targets, self.options).sum())

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        """Return the sums of loss and right answers; of an example with several labels, their means count."""
        own = {} if self.own_loss is None else {LOSS.name: self.loss(outputs, targets).item() * len(targets)}
        logits = self._logits(outputs, targets) if self.has_own_loss else named_logits(outputs)
        if logits is None:
            return own
        labels_each = targets.numel() // len(targets)
        logits, labels = self.flat(logits, targets)
        loss = own or {LOSS.name: functional.cross_entropy(logits, labels, reduction="sum").item() / labels_each}
        return {**loss, ACCURACY.name: int((logits.argmax(1) == labels).sum()) / labels_each}

    def evaluated(self, outputs: Any, targets: Tensor) -> tuple[dict[str, float], dict[str, float]]:
        """Return the sums of `measure` over the targets that count, and their weights; of an example, means."""
        logits = self._logits(outputs, targets)
        if type(self).measure not in (Classification.measure, NextToken.measure) or logits is None:
            return super().evaluated(outputs, targets)
        known, labels_each = self.known(outputs, targets), targets.numel() // len(targets)
        count = int((known != IGNORED).sum()) / labels_each
        flat, labels = self.flat(logits, known)
        right = int((flat.argmax(1) == labels).sum()) / labels_each
        loss, weight = self._loss_sum(outputs, targets, known)
        return {LOSS.name: loss, ACCURACY.name: right}, {LOSS.name: weight, ACCURACY.name: count}

    def _loss_sum(self, outputs: Any, targets: Tensor, known: Tensor) -> tuple[float, float]:
        """Return the sum of the loss over a batch, and the weight of the targets that count."""
        labels_each = targets.numel() // len(targets)
        count = int((known != IGNORED).sum()) / labels_each
        if not self.has_own_loss:
            flat = self.flat(named_logits(outputs), targets)
            return functional.cross_entropy(*flat, reduction="sum").item() / labels_each, count
        if self.is_torchs:
            of = functional.cross_entropy if is_one_of(CROSS_ENTROPIES, self.own_loss) else functional.nll_loss
            logits, weight = named_logits(outputs), float(weights_of(targets, self.options).sum())
            return cross_entropy_sum(logits, targets, self.options, of=of), weight
        is_of_all = count < len(targets) and self._divides_by_all(outputs, targets, known)
        weight = len(targets) if is_of_all else count
        return self.loss(outputs, targets).item() * weight if weight else 0.0, weight

    def known(self, outputs: Any, targets: Tensor) -> Tensor:
        """Return the targets, with `IGNORED` in place of each that does not count in the loss."""
        if not self.has_own_loss:
            return targets
        if self.is_torchs:
            return targets.masked_fill(weights_of(targets, self.options) == 0, IGNORED)
        logits = self._logits(outputs, targets)
        if logits is None:
            return targets
        found = counts(lambda made, theirs: self.loss(with_logits(outputs, made), theirs), made_up(logits), targets)
        if found is None:
            return targets
        of_targets = self.flat(found, targets)[0].any(1).reshape(targets.shape)
        return targets.masked_fill(~of_targets, IGNORED)

    def _divides_by_all(self, outputs: Any, targets: Tensor, known: Tensor) -> bool:
        logits, void = self._logits(outputs, targets), targets[known == IGNORED].flatten()[0].item()
        assert logits is not None
        loss = lambda made, theirs: self.loss(with_logits(outputs, made), theirs)  # noqa: E731
        return divides_by_all(loss, logits, void, targets.shape, targets.dtype)

    def predictions(self, outputs: Any, targets: Tensor) -> Predictions | None:
        """Return classes and probabilities of all places that count; None where the outputs are no logits."""
        logits = self._logits(outputs, targets)
        if logits is None:
            return None
        return of_classes(*self.flat(logits, self.known(outputs, targets)), self.spec.classes)

    def answers(self, outputs: Any, targets: Tensor) -> Predicted | None:
        """Return the likeliest class at each place, and the probabilities; None where the outputs are no logits."""
        logits = self._logits(outputs, targets)
        if logits is None:
            return None
        shares = of_classes(*self.flat(logits, torch.zeros_like(targets)), self.spec.classes).shares
        assert shares is not None
        return Predicted.of_classes(shares.reshape(*targets.shape, self.spec.classes))

    def confusion(self, outputs: Any, targets: Tensor) -> NDArray[np.int64] | None:
        """Return the confusion matrix; None for tokens, and where an example does not have exactly one label."""
        if targets.ndim != 1 or targets.is_floating_point() or self.spec.vocabulary == self.spec.classes:
            return None
        logits = self._logits(outputs, targets)  # may be None for a derived class, or with an own loss
        if logits is None:
            return None
        guess = logits.argmax(1).masked_fill(logits.isnan().any(1), -1)  # logits with NaN name no class
        return confusion_of(self.known(outputs, targets).cpu().numpy(), guess.cpu().numpy(), self.spec.classes)

    def _logits(self, outputs: Any, targets: Tensor) -> Tensor | None:
        """Return the logits among the outputs; None where there are none that fit the targets."""
        logits = logits_of(outputs)
        fits = isinstance(logits, Tensor) and class_axes(logits.shape, targets.shape, self.spec.classes)
        return logits if fits else None

    def flat(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits (n, K) and labels (n,): each place of an example counts as an example.

        Raises
        ------
        ValueError
            If the shapes do not say on which axis the classes stand.
        """
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
    """Cross-entropy of the next token: after each token of a sequence, or after the last one."""

    metrics = LANGUAGE
