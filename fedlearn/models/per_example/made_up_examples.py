"""Made-up examples of a data set's shape: what a module is tried on where no record may be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedlearn.models.torch.making import made_up_examples

if TYPE_CHECKING:
    from fedlearn.models.torch.torch_model import TorchModel

SEED = 20


def made_up(model: TorchModel, count: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of made-up examples, different from one another, the same in every process."""
    spec, rng = model.spec, np.random.Generator(np.random.Philox(SEED))
    inputs = made_up_examples(spec, count, rng)
    targets: NDArray[Any]
    if spec.classes:
        targets = rng.integers(0, spec.classes, (count, *spec.target_shape))
    else:
        targets = rng.random((count, *spec.target_shape))
    return model.with_targets(model.inputs(inputs), targets), model.targets(targets)
