"""Label flip: class k becomes class K - 1 - k."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedlearn.attacks.claim import Attack
from fedlearn.data.data_spec import DataSpec, Examples


class LabelFlip(Attack):
    """Trains on mirrored labels: class k of K counts as K - 1 - k.

    Source: Tolpegin et al. 2020 (arXiv:2007.08432), for all classes, as in Karimireddy et al. 2022 (arXiv:2006.09365).
    """

    def check(self, spec: DataSpec) -> None:
        """Refuse targets that are no classes."""
        if spec.classes < 2:
            raise ValueError("label-flip mirrors classes, and the targets are numbers")

    def poisoned(self, examples: Examples, *, classes: int, rng: np.random.Generator) -> Examples:
        """Return the examples with mirrored labels."""
        return replace(examples, targets=classes - 1 - examples.targets)
