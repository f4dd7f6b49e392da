"""Torch's losses by kind: of numbers, of several labels, cross-entropies."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn
from torch.nn import functional

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
LOG_LIKELIHOODS = (functional.nll_loss, nn.NLLLoss)
OF_COUNTS = (functional.poisson_nll_loss, nn.PoissonNLLLoss)


def is_one_of(losses: tuple[Any, ...], loss: Any) -> bool:
    """Return whether a loss is one of these: as a function, as a module, or in a `functools.partial`."""
    while isinstance(loss, partial):
        loss = loss.func
    return any(loss is each or (isinstance(each, type) and isinstance(loss, each)) for each in losses)
