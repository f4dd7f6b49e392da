"""Gradients that may be changed in place: each is dense, and has memory of its own."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor


def owned(gradients: Iterable[Tensor]) -> list[Tensor]:
    """Return gradients as dense tensors of which no two share memory; a gradient that shares memory is copied.

    Autograd returns one tensor for both terms of a sum of parameters (``W = shared + own``), and one number, expanded,
    for a parameter that is only summed. Momentum, weight decay or clipping in place would change such a tensor twice.

    >>> import torch
    >>> both = torch.ones(2)
    >>> first, second, third = owned([both, both, torch.ones(1).expand(2)])
    >>> first.mul_(2), second, third.mul_(3)
    (tensor([2., 2.]), tensor([1., 1.]), tensor([3., 3.]))
    """
    places: set[int] = set()
    found = []
    for gradient in gradients:
        dense = gradient.to_dense() if gradient.is_sparse else gradient
        place = dense.untyped_storage().data_ptr()
        if place in places or 0 in dense.stride():
            dense = dense.clone()
        places.add(place)
        found.append(dense)
    return found
