"""Made-up examples of a data set's shape: what a module is tried on where no record may be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from fedlearn.models.torch_model import TorchModel

SEED = 20


def made_up(model: TorchModel, count: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of made-up examples, different from one another, the same in every process."""
    spec, rng = model.spec, np.random.Generator(np.random.Philox(SEED))
    shape = (count, *spec.shape)
    inputs: NDArray[Any]
    if spec.vocabulary:
        inputs = rng.integers(1, spec.vocabulary, shape).astype(spec.dtype)
    elif spec.table is not None:  # numbers within their bounds, then codes of categories
        numbers = [low + (high - low) * rng.random(count) for low, high, *_ in spec.table.bounds.values()]
        codes = [rng.integers(0, len(names), count) for names in spec.table.categories.values()]
        inputs = np.stack([*numbers, *codes], axis=1).astype(spec.dtype)
    elif np.dtype(spec.dtype).kind in "iu":
        inputs = rng.integers(0, 256 if spec.dtype == "uint8" else 2, shape).astype(spec.dtype)
    else:
        inputs = rng.standard_normal(shape).astype(spec.dtype)
    targets: NDArray[Any]
    if spec.classes:
        targets = rng.integers(0, spec.classes, (count, *spec.target_shape))
    else:
        targets = rng.random((count, *spec.target_shape))
    return model.inputs(inputs), model.targets(targets)
