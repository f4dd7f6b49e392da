"""Which targets count in a loss: not those that it ignores, weighs by 0, or masks.

Torch's losses say it by their options. Of any other loss it is seen in its gradient: a target does not count where
made-up outputs, wrong ones among them, all have a gradient of zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import isclose
from typing import Any

import torch
from torch import Tensor, nn

from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import IGNORED
from fedlearn.models.objectives.objective import Loss, Objective
from fedlearn.models.scores.gathered import joined

OPTIONS = ("weight", "ignore_index", "label_smoothing", "reduction")
TORCH = "torch.nn."
SAME = 1e-4  # relative difference of two sums in another order


def options_of(loss: Any) -> dict[str, Any]:
    """Return the options of a loss of torch's, of a module or of a `functools.partial`; none of any other loss.

    >>> options_of(partial(nn.functional.cross_entropy, ignore_index=2))
    {'ignore_index': 2}
    """
    if isinstance(loss, partial) and is_torchs(loss):
        return {**options_of(loss.func), **loss.keywords}
    if isinstance(loss, nn.Module) and is_torchs(loss):
        return {name: getattr(loss, name) for name in OPTIONS if hasattr(loss, name)}
    return {}


def is_torchs(loss: Any) -> bool:
    """Return whether a loss is one of torch's own, and not of a class derived from it."""
    while isinstance(loss, partial):
        loss = loss.func
    kind = type(loss) if isinstance(loss, nn.Module) else loss
    return str(getattr(kind, "__module__", "")).startswith(TORCH)


def check_reduction(loss: Any) -> None:
    """Raise SettingError for a loss of torch's that is no mean over its batch."""
    reduction = options_of(loss).get("reduction", "mean")
    if reduction != "mean":
        raise SettingError(
            "model.loss", loss,
            f"reduction={reduction!r} is no mean over a batch, so that steps would grow with training.batch_size: "
            "leave reduction out",
        )  # fmt: skip


def weights_of(labels: Tensor, options: Mapping[str, Any]) -> Tensor:
    """Return the weight of each label in a cross-entropy with these options, (n,) float64; 0 of one that it ignores.

    >>> weights_of(torch.tensor([0, 1, 2]), {"weight": torch.tensor([0.5, 3.0, 1.0]), "ignore_index": 1}).tolist()
    [0.5, 0.0, 1.0]
    """
    is_known = labels != options.get("ignore_index", IGNORED)
    weight = options.get("weight")
    of_each = torch.ones(()) if weight is None else weight.to(labels.device).double()[labels.where(is_known, 0)]
    return torch.as_tensor(of_each * is_known.double())


def cross_entropy_sum(logits: Tensor, labels: Tensor, options: Mapping[str, Any], *, of: Any) -> float:
    """Return the weighted sum of the losses of all labels, computed in float64.

    Parameters
    ----------
    of
        `functional.cross_entropy` or `functional.nll_loss`.
    """
    weight = options.get("weight")
    weight = None if weight is None else weight.to(logits.device).double()
    return float(of(logits.double(), labels, **{**options, "weight": weight, "reduction": "sum"}))


def counts(loss: Loss, outputs: Iterator[Tensor], targets: Tensor) -> Tensor | None:
    """Return where a loss has a gradient for any of these outputs, the shape of outputs; None where it has none at all.

    Outputs that the loss does not take say nothing.
    """
    found: Tensor | None = None
    for made in outputs:
        with suppress(Exception), torch.inference_mode(False), torch.enable_grad():
            leaf = made.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(loss(leaf, targets.clone()), leaf)
            has_one = gradient.isfinite() & (gradient != 0)
            found = has_one if found is None else found | has_one
        if found is not None and bool(found.all()):
            break
    return found


def made_up(like: Tensor, *, around: Tensor | None = None) -> Iterator[Tensor]:
    """Yield made-up outputs: equal ones, random ones; of numbers, also those far above and below the targets."""
    if around is not None:
        far = 1 + around.nan_to_num().abs().max()
        yield from (around + far, around - far)
    yield torch.zeros_like(like)
    generator = torch.Generator().manual_seed(1)
    for size in (1.0, 3.0):
        yield size * torch.randn(like.shape, generator=generator).to(like)
    yield torch.rand(like.shape, generator=generator).to(like)  # of losses of probabilities


def divides_by_all(loss: Loss, outputs: Tensor, void: float, shape: Sequence[int], dtype: torch.dtype) -> bool:
    """Return whether a loss is a mean over all targets, also over those that do not count.

    To made-up targets one example is added that does not count at all: the loss falls, or it stays.

    Parameters
    ----------
    void
        A target that does not count.
    shape, dtype
        Those of the targets.
    """
    with suppress(Exception):
        targets = torch.full(tuple(shape), 0 if void else 1, dtype=dtype, device=outputs.device)
        before = float(loss(outputs, targets))
        more = torch.cat([targets, torch.full_like(targets[:1], void)])
        after = float(loss(torch.cat([outputs, outputs[:1]]), more))
        return abs(after * len(more) - before * len(targets)) < abs(after - before) * len(targets)
    return False


def why_no_mean(objective: Objective, outputs: Any, targets: Tensor) -> str:
    """Return the line that refuses a user's loss which is a sum over its batch; empty for a mean."""
    if getattr(objective, "own_loss", None) is None and type(objective).loss.__module__.startswith("fedlearn."):
        return ""
    with suppress(Exception), torch.no_grad():
        once = float(objective.loss(outputs, targets))
        twice = float(objective.loss(joined([outputs, outputs]), torch.cat([targets, targets])))
        if once and isclose(twice, 2 * once, rel_tol=SAME):
            return (
                "model.loss is a sum over its batch, so that steps grow with training.batch_size: let it return a mean"
            )
    return ""
