"""Objectives whose outputs have the shape of the targets: errors of numbers, and several labels an example."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from fedlearn.core.metric import ACCURACY, ALL_RIGHT, DEVIANCE, LOSS, MAE, MAE_SCALED, MSE
from fedlearn.core.metrics import COUNTS, LABELS, NEURAL_REGRESSOR, SEVERAL, Metrics
from fedlearn.data.data_spec import DataSpec
from fedlearn.models.objectives.counted_targets import counts, divides_by_all, is_torchs, made_up, options_of
from fedlearn.models.objectives.objective import Loss, Objective, no_tensor
from fedlearn.models.objectives.several import of_each, scale_of, widths_of
from fedlearn.models.objectives.torch_losses import LOSSES_OF_NUMBERS, OF_PROBABILITIES, is_one_of
from fedlearn.models.output_axes import are_alike, learns_images, named_logits, wrong_shape
from fedlearn.models.predicted import Predicted
from fedlearn.models.scores.metric_inputs import Predictions, of_labels, of_numbers


class Regression(Objective):
    """Squared error of (B, ...) numbers; in the loss, declared bounds of the targets are scaled to -1 and 1.

    Metrics are in the unit of the targets. With a loss of the user's, runs are judged by that loss, unless it is one of
    torch's losses of numbers: outputs that are logits have no error in the unit of the targets. Errors are measured
    beside it only where the loss is least at the targets themselves.

    >>> from fedlearn.data.data_spec import DataSpec
    >>> Regression(DataSpec("prices", (3,), "float32")).loss(torch.ones(2), torch.zeros(2)).item()
    1.0
    """

    metrics = NEURAL_REGRESSOR

    def __init__(self, spec: DataSpec, loss: Loss | None = None) -> None:
        super().__init__(spec, loss)
        self.center, self.unit = scale_of(spec)
        self.takes_any = loss is not None and not is_one_of(LOSSES_OF_NUMBERS, loss)
        self.widths = widths_of(spec)
        self.metrics = (NEURAL_REGRESSOR if self.widths is None else SEVERAL).of_each(MAE, spec.target_names)
        if self.takes_any:
            self.metrics = self.metrics.judged_by_loss()
        self.is_torchs = is_torchs(loss)

    def has_errors(self, outputs: Any, targets: Tensor) -> bool:
        """Return whether outputs have errors: they have the shape of the targets, and the loss is least at these."""
        if not self.takes_any:
            return True
        return not _why_not_alike(outputs, targets) and _is_least_at_targets(self.loss, outputs.shape, targets.shape)

    def targets(self, targets: NDArray[Any]) -> Tensor:
        """Return the targets as float32 numbers, (B, ...); images as (B, C, H, W)."""
        numbers = torch.from_numpy((targets - self.center) / self.unit).to(torch.float32)
        return numbers.permute(0, 3, 1, 2) if learns_images(self.spec) else numbers

    def why_not(self, outputs: Any, targets: Tensor) -> str:
        """Return what is wrong with the shape of the outputs; axes of length 1 make no difference."""
        if type(self).loss is not Regression.loss:
            return ""
        if self.takes_any:
            return "" if self.is_torchs else _why_spread(self.own_loss, outputs, targets)
        return _why_not_alike(named_logits(outputs), targets)

    def metrics_of(self, outputs: Any, targets: Tensor) -> Metrics:
        """Return the metrics; only the loss where the user has an own loss and the outputs have another shape."""
        return self.metrics if self.has_errors(outputs, targets) else self.metrics.of_loss_alone()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        """Return the mean squared error; a loss of a user's own gets the outputs as the module returns them."""
        loss = self.own_loss or functional.mse_loss
        as_it_is = self.takes_any and (not self.is_torchs or _why_not_alike(outputs, targets))
        return loss(outputs if as_it_is else _shaped(outputs, targets), targets)

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        """Return the sums over the batch of absolute and squared error, each a mean over an example's numbers."""
        own = {LOSS.name: self.loss(outputs, targets).item() * len(targets)} if self.takes_any else {}
        if not self.has_errors(outputs, targets):
            return own
        error = (self.guessed(outputs, targets) - targets).reshape(len(targets), -1).double() * self._unit
        sizes = error.abs()
        each = of_each(MAE, self.spec, sizes.sum(0))
        if self.widths is not None:
            return {**own, MAE_SCALED.name: (sizes / self.widths).mean(1).sum().item(), **each}
        return {**own, MAE.name: sizes.mean(1).sum().item(), MSE.name: error.square().mean(1).sum().item(), **each}

    @property
    def _unit(self) -> Tensor:
        """The unit of the targets, or of each of several, (T,)."""
        return torch.as_tensor(self.unit, dtype=torch.float64)

    def evaluated(self, outputs: Any, targets: Tensor) -> tuple[dict[str, float], dict[str, float]]:
        """Return the sums of `measure` over the numbers that count in a loss of the user's, and their weights."""
        is_ours = type(self).measure.__module__ == __name__
        known = self.known(outputs, targets) if is_ours else targets
        missing = known.isnan()
        if not bool(missing.any()):
            return self.measure(outputs, targets), {}
        count = int((~missing).sum()) * len(targets) / targets.numel()
        void = targets[missing].flatten()[0].item()
        is_of_all = divides_by_all(self.loss, outputs, void, targets.shape, targets.dtype)
        weight = len(targets) if is_of_all else count
        shown = torch.where(missing, 0, _shaped(outputs, targets)) if self.has_errors(outputs, targets) else outputs
        found = self.measure(shown, torch.where(missing, 0, targets))  # where none counts, there is no error
        found[LOSS.name] = self.loss(outputs, targets).item() * weight if weight else 0.0
        each = of_each(MAE, self.spec, (~missing).reshape(len(missing), -1).sum(0))
        return found, {**dict.fromkeys(found, count), **each, LOSS.name: weight}

    def known(self, outputs: Any, targets: Tensor) -> Tensor:
        """Return the targets, with NaN in place of each that does not count in a loss of the user's own."""
        if self.is_torchs or not self.takes_any or _why_not_alike(outputs, targets):
            return targets
        found = counts(self.loss, made_up(outputs, around=targets.reshape(outputs.shape)), targets)
        return targets if found is None else targets.masked_fill(~found.reshape(targets.shape), torch.nan)

    def guessed(self, outputs: Any, targets: Tensor) -> Tensor:
        """Return the outputs in the shape and the unit of the targets."""
        return _shaped(outputs, targets)

    def predictions(self, outputs: Any, targets: Tensor) -> Predictions | None:
        """Return the numbers that count, in the unit of the targets; None where the outputs are no such numbers."""
        if not self.has_errors(outputs, targets):
            return None
        known, guessed = self.known(outputs, targets), self.guessed(outputs, targets)
        if bool(known.isnan().any()):  # an example with some numbers that count has no place in an array
            known, guessed = known.reshape(len(known), -1), guessed.reshape(len(known), -1)
            has_all = ~known.isnan().any(1)
            known, guessed = known[has_all].squeeze(1), guessed[has_all].squeeze(1)
        return of_numbers(guessed, known, center=torch.as_tensor(self.center), unit=self._unit)

    def answers(self, outputs: Any, targets: Tensor) -> Predicted | None:
        """Return numbers in the unit of the targets; None where a loss of the user's own gives outputs no unit."""
        if not self.has_errors(outputs, targets):
            return None
        numbers = self.guessed(outputs, targets).double() * self._unit + torch.as_tensor(self.center)
        return Predicted(_last_channels(self.spec, numbers).numpy())


class Counts(Regression):
    """A Poisson loss of counts: outputs are logarithms of rates, or rates with ``log_input=False``.

    Metrics are those of the rates: the mean Poisson deviance, 0 at best, and errors. Declared bounds scale nothing.
    """

    metrics = COUNTS

    def __init__(self, spec: DataSpec, loss: Loss) -> None:
        super().__init__(spec, loss)
        self.metrics = COUNTS.of_other_loss().of_each(MAE, spec.target_names)
        self.center, self.unit, self.widths = 0.0, 1.0, None
        options = options_of(loss)
        self.is_log = options.get("log_input", getattr(loss, "log_input", True))

    def has_errors(self, outputs: Any, targets: Tensor) -> bool:
        """Return whether there is a rate for each count."""
        return not _why_not_alike(outputs, targets)

    def guessed(self, outputs: Any, targets: Tensor) -> Tensor:
        """Return the rates, in the shape of the targets."""
        numbers = _shaped(outputs, targets)
        return numbers.double().exp() if self.is_log else numbers.double()

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        """Return the sums of deviance, loss, absolute and squared error, each a mean over an example's numbers."""
        if not self.has_errors(outputs, targets):
            return super().measure(outputs, targets)
        rate, count = self.guessed(outputs, targets), targets.double()
        deviance = 2 * (torch.xlogy(count, count) - torch.xlogy(count, rate) - count + rate)
        found = deviance.clamp(min=0).reshape(len(targets), -1).mean(1).sum().item()
        return {DEVIANCE.name: found, **super().measure(outputs, targets)}


class Labels(Objective):
    """Several labels per example, each present or absent: a binary cross-entropy of outputs and targets, both (B, ...).

    Parameters
    ----------
    loss : callable
        Binary cross-entropy of logits, or of probabilities.
    """

    metrics = LABELS

    def __init__(self, spec: DataSpec, loss: Loss) -> None:
        super().__init__(spec, loss)
        self.threshold = 0.5 if is_one_of(OF_PROBABILITIES, loss) else 0.0
        self.metrics = self.metrics.of_each(ACCURACY, spec.target_names)

    def targets(self, targets: NDArray[Any]) -> Tensor:
        """Return 1 for each present label, else 0, as float32 (B, ...); images as (B, C, H, W)."""
        labels = torch.from_numpy(targets).to(torch.float32)
        return labels.permute(0, 3, 1, 2) if learns_images(self.spec) else labels

    def why_not(self, outputs: Any, targets: Tensor) -> str:
        """Return what is wrong with the shape of the outputs; axes of length 1 make no difference."""
        return _why_not_alike(named_logits(outputs), targets)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        """Return the mean binary cross-entropy."""
        assert self.own_loss is not None
        return self.own_loss(_shaped(outputs, targets), targets)

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        """Return the sums of the loss, of the share of right labels, and of examples whose labels are all right."""
        right = ((_shaped(outputs, targets) > self.threshold) == (targets > 0.5)).reshape(len(targets), -1)
        return {
            LOSS.name: self.loss(outputs, targets).item() * len(targets),
            ACCURACY.name: right.double().mean(1).sum().item(),
            ALL_RIGHT.name: int(right.all(1).sum()),
            **of_each(ACCURACY, self.spec, right.sum(0)),
        }

    def evaluated(self, outputs: Any, targets: Tensor) -> tuple[dict[str, float], dict[str, float]]:
        """Return the sums of `measure`, in which labels of weight 0 are neither right nor wrong, and their weights."""
        counted = self.counted(targets)
        if bool(counted.all()) or type(self).measure is not Labels.measure:
            return super().evaluated(outputs, targets)
        shown = _shaped(outputs, targets).where(counted, self.threshold + targets - 0.5)
        counts = counted.reshape(len(targets), -1).double()
        share, each = counts.mean(1), of_each(ACCURACY, self.spec, counts.sum(0))
        found = self.measure(shown, targets)
        weights = {ACCURACY.name: share.sum().item(), ALL_RIGHT.name: int((share > 0).sum()), **each}
        found |= {name: found[name] - (len(targets) - count) for name, count in each.items()}
        found[ACCURACY.name] -= (1 - share).sum().item()
        found[ALL_RIGHT.name] -= int((share == 0).sum())
        return {**found, LOSS.name: self.loss(outputs, targets).item() * len(targets)}, weights

    def counted(self, targets: Tensor) -> Tensor:
        """Return which labels count in the loss: those of which ``weight`` is not 0."""
        weight = options_of(self.own_loss).get("weight")
        return torch.ones_like(targets, dtype=torch.bool) if weight is None else (weight != 0).expand_as(targets)

    def predictions(self, outputs: Any, targets: Tensor) -> Predictions | None:
        """Return labels that count in some example, and their probabilities."""
        columns = self.counted(targets).reshape(len(targets), -1).any(0)
        outputs = _shaped(outputs, targets)
        if not bool(columns.all()) and targets.ndim == 2:
            outputs, targets = outputs[:, columns], targets[:, columns]
        return of_labels(outputs, targets, self.threshold)

    def answers(self, outputs: Any, targets: Tensor) -> Predicted | None:
        """Return which labels are present, 0 or 1, and the probability of each."""
        outputs = _last_channels(self.spec, _shaped(outputs, targets).double())
        shares = outputs if self.threshold else outputs.sigmoid()
        return Predicted((outputs > self.threshold).long().numpy(), shares.numpy(), are_labels=True)


def _last_channels(spec: DataSpec, numbers: Tensor) -> Tensor:
    """Return numbers in the form of the data set's targets: images (B, H, W, C)."""
    return numbers.permute(0, 2, 3, 1) if learns_images(spec) else numbers


def _why_spread(loss: Any, outputs: Any, targets: Tensor) -> str:
    """Return why a loss compares outputs (B, 1) with targets (B,) each with each; empty if it does not."""
    if not isinstance(outputs, Tensor) or outputs.shape == targets.shape or _why_not_alike(outputs, targets):
        return ""
    with suppress(Exception), torch.no_grad():
        theirs = targets + torch.arange(len(targets)).reshape(-1, *(1,) * (targets.ndim - 1)).to(targets)
        if not torch.isclose(loss(outputs, theirs), loss(outputs.reshape(targets.shape), theirs)):
            return f"{wrong_shape(outputs, targets, targets.shape)}, and model.loss compares each with every other"
    return ""


def _is_least_at_targets(loss: Loss, outputs: tuple[int, ...], targets: tuple[int, ...]) -> bool:
    """Return whether a loss grows, or stays, where outputs leave the targets in either direction."""
    theirs = torch.arange(1.0, 9.0).reshape(8, *(1 for _ in targets[1:])).expand(8, *targets[1:]).contiguous()
    made = theirs.reshape(8, *outputs[1:])
    with suppress(Exception), torch.no_grad():
        least = float(loss(made, theirs))
        return all(least <= float(loss(made + away, theirs)) for away in (-1.0, -0.1, 0.1, 1.0))
    return True


def _why_not_alike(outputs: Any, targets: Tensor) -> str:
    if not isinstance(outputs, Tensor):
        return no_tensor(outputs)
    return "" if are_alike(outputs.shape, targets.shape) else wrong_shape(outputs, targets, targets.shape)


def _shaped(outputs: Any, targets: Tensor) -> Tensor:
    """Return outputs, or the logits in them, in the shape of the targets; raise ValueError where they do not fit."""
    outputs = named_logits(outputs)
    if isinstance(outputs, Tensor) and outputs.shape == targets.shape:
        return outputs
    if why_not := _why_not_alike(outputs, targets):
        raise ValueError(why_not)
    return outputs.reshape(targets.shape)  # type: ignore[no-any-return]
