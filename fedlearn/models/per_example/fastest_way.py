"""The choice of the way in which a model's clipped sums are computed: the fastest that is right on made-up examples."""

from __future__ import annotations

import torch

from fedlearn.models.per_example.by_layer import ByLayer
from fedlearn.models.per_example.by_transform import ByTransform
from fedlearn.models.per_example.clipped_sum import ClippedSum
from fedlearn.models.per_example.made_up_examples import made_up
from fedlearn.models.per_example.one_by_one import OneByOne
from fedlearn.models.torch.torch_model import TorchModel

Way = type[ByLayer] | type[ByTransform] | type[OneByOne]
WAYS: tuple[Way, ...] = (ByLayer, ByTransform, OneByOne)
MOST_PLACES = 128  # of a batch: from there on a larger one is no faster
MOST_NUMBERS = 1 << 25  # of gradients of single examples in memory at once
TRIED = 4
CLIP = 0.5
TOLERANCE = 1e-3  # of the norm of a sum


def clipped_sum_of(model: TorchModel, expected: int) -> ClippedSum:
    """Return the fastest way to compute clipped sums of a model that agrees with a pass for each example.

    Nothing of a node's data is read, so all processes choose the same.

    Parameters
    ----------
    model : TorchModel
        Model, which has the same parameters afterwards.
    expected : int
        Expected number of examples in a step; the batch has places for as many, a multiple of 16 from 16 to 128, or
        fewer where gradients are large.
    """
    places = min(max(-(-expected // 16) * 16, 16), MOST_PLACES)
    for way in WAYS[:-1]:
        if _is_right(way, model):
            found = way(model, TRIED)
            found.places = max(min(places, MOST_NUMBERS // max(found.numbers, 1)), 1)
            return found
    return OneByOne(model, places)


def _is_right(way: Way, model: TorchModel) -> bool:
    inputs, targets = made_up(model, TRIED)
    taken = torch.arange(TRIED, device=model.device) < TRIED - 1
    model.module.eval()  # without dropout, which no two ways draw alike
    try:
        with torch.random.fork_rng(devices=[]):
            one, other = (kind(model, TRIED)(inputs, targets, taken, clip=CLIP) for kind in (OneByOne, way))
            model.train()
            way(model, TRIED)(inputs, targets, taken, clip=CLIP)
    except Exception:  # what a way does not take, of torch or of the user's module
        return False
    finally:
        model.beside.put_back()
        model.train()
    return bool((one - other).norm() <= TOLERANCE * one.norm())
