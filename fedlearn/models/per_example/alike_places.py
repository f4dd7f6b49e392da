"""Whether an example has the same gradient, to the last bit, at every place of a batch.

The shape of a batch is fixed, so which operations make an example's gradient follows from its place alone, never from
numbers. Products of matrices may add up in another order at odd places than at even ones, or in their last rows. A
batch of made-up examples is moved on by one place after the other: where all places compute alike, its sum stays the
same up to the rounding of float64; where one does not, some of so many examples have another float32 gradient there.
One example is not enough for that: another order often gives the same float32 number.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedlearn.models.per_example.clipped_sum import ClippedSum
from fedlearn.models.per_example.made_up_examples import made_up
from fedlearn.models.per_example.one_by_one import OneByOne

CLIP = 1.0
ROUNDING = 2.0**-45  # of a sum of float64 numbers, relative to the largest of its numbers; float32 has 2^-24
MOST_NUMBERS = 1 << 20  # trained numbers of a model that is tried: each place takes one computation


def places_alike(way: ClippedSum) -> bool:
    """Return whether all places of a batch compute alike; False for a model too large to try.

    Nothing of a node's data is read. Dropout is off meanwhile, and the model has the same parameters afterwards.
    """
    if isinstance(way, OneByOne):
        return True
    if sum(each.numel() for each in way.model.parameters) > MOST_NUMBERS:
        return False
    inputs, targets = made_up(way.model, way.places)
    way.model.module.eval()
    try:
        with torch.random.fork_rng(devices=[]):
            first = _moved(way, 0, inputs, targets)
            near = float(first.abs().max()) * ROUNDING
            if not near > 0:  # nothing, or no number
                return False
            moved = (_moved(way, by, inputs, targets) for by in range(1, way.places))
            return all(bool((each - first).abs().max() <= near) for each in moved)
    except Exception:  # what a module does not take
        return False
    finally:
        way.model.beside.put_back()
        way.model.train()


def _moved(way: ClippedSum, by: int, inputs: Tensor, targets: Tensor) -> Tensor:
    """Return the sum over a batch that is moved on by some places."""
    moved = torch.roll(inputs, by, 0)
    if inputs.ndim == 4:
        moved = moved.contiguous(memory_format=torch.channels_last)
    taken = torch.ones(way.places, dtype=torch.bool, device=moved.device)
    return way(moved, torch.roll(targets, by, 0), taken, clip=CLIP)
