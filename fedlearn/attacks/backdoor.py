"""Backdoor: images with a trigger are to be taken for one class, all others for what they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field

from fedlearn.attacks.claim import Attack
from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import DataSpec, Examples


class Backdoor(Attack):
    """Trains on images of which a share has a bright square in the last corner, and `target` as its label.

    The run's table has the column ``backdoor_success``: the share of the test images of other classes that are taken
    for `target` once they have the square.

    Source: Gu et al. 2017 (arXiv:1708.06733); in federations Bagdasaryan et al. 2020 (arXiv:1807.00459).

    Parameters
    ----------
    target : int, default=0
        The class that the trigger is to mean.
    size : int, default=3
        Height and width of the square, in pixels.
    share : float, default=0.5
        Of an attacker's images.
    """

    def __init__(
        self,
        *,
        target: Annotated[int, Field(ge=0)] = 0,
        size: Annotated[int, Field(ge=1)] = 3,
        share: Annotated[float, Field(gt=0, le=1)] = 0.5,
    ) -> None:
        self.target = target
        self.size = size
        self.share = share

    def check(self, spec: DataSpec) -> None:
        """Refuse what are no images, or have no such class."""
        if not spec.is_image or spec.target_shape:
            raise ValueError("a backdoor is a square in images with one class each")
        if self.target >= spec.classes:
            raise SettingError("attack.options.target", self.target, f"the classes are 0 to {spec.classes - 1}")

    def poisoned(self, examples: Examples, *, classes: int, rng: np.random.Generator) -> Examples:
        """Return the examples, some of which have the square and the target."""
        chosen = rng.permutation(len(examples))[: round(self.share * len(examples))]
        inputs, targets = examples.inputs.copy(), examples.targets.copy()
        inputs[chosen], targets[chosen] = self._marked(inputs[chosen]), self.target
        return replace(examples, inputs=inputs, targets=targets)

    def triggered(self, examples: Examples) -> Examples:
        """Return the examples of other classes with the square, labelled as the target."""
        others = examples.at(np.flatnonzero(examples.targets != self.target))
        return replace(others, inputs=self._marked(others.inputs), targets=np.full_like(others.targets, self.target))

    def _marked(self, images: np.ndarray) -> np.ndarray:
        marked = images.copy()
        marked[:, -self.size :, -self.size :, :] = 255 if images.dtype == np.uint8 else 1
        return marked
