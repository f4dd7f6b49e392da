"""Objectives of classes: cross-entropy with one label per example, or one label at each of several places."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from fedlearn.models.axes import class_axes, logits_of, named_logits, wrong_shape
from fedlearn.models.base import confusion_of
from fedlearn.models.objectives.base import Objective, no_tensor
from fedlearn.models.objectives.losses import CROSS_ENTROPIES, is_one_of
from fedlearn.models.scores.predictions import Predictions, of_classes
from fedlearn.words.metric import ACCURACY, LOSS
from fedlearn.words.metrics import LANGUAGE, NEURAL_CLASSIFIER, Metrics


class Classification(Objective):
    """Cross-entropy in nats of (B, K) logits and (B,) labels; or of (B, K, ...) and (B, ...) at several places.

    Attributes
    ----------
    class_axis
        Axis of the outputs on which the classes stand, 1 or -1, as the module's ``class_axis`` says; None: the shape
        says it.
    """

    metrics = NEURAL_CLASSIFIER
    class_axis: int | None = None

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
        """Return the mean cross-entropy."""
        if self.own_loss is not None:
            takes_logits = is_one_of(CROSS_ENTROPIES, self.own_loss)
            return self.own_loss(named_logits(outputs) if takes_logits else outputs, targets)
        return functional.cross_entropy(*self.flat(named_logits(outputs), targets))

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

    def predictions(self, outputs: Any, targets: Tensor) -> Predictions | None:
        """Return classes and probabilities of all examples and places; None where the outputs are no logits."""
        logits = self._logits(outputs, targets)
        return None if logits is None else of_classes(*self.flat(logits, targets), self.spec.classes)

    def confusion(self, outputs: Any, targets: Tensor) -> NDArray[np.int64] | None:
        """Return the confusion matrix; None for tokens, and where an example does not have exactly one label."""
        if targets.ndim != 1 or targets.is_floating_point() or self.spec.vocabulary == self.spec.classes:
            return None
        logits = self._logits(outputs, targets)  # may be None for a derived class, or with an own loss
        if logits is None:
            return None
        guess = logits.argmax(1).masked_fill(logits.isnan().any(1), -1)  # logits with NaN name no class
        return confusion_of(targets.cpu().numpy(), guess.cpu().numpy(), self.spec.classes)

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
