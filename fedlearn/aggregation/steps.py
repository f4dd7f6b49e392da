"""The table of fold steps, each of which changes one node's parcel before the parcel is added up.

A strategy names the steps that it needs (`RoundStrategy.steps`), and ``strategy.steps`` puts others before them.
"""

from __future__ import annotations

import json
import math

import numpy as np

from fedlearn.aggregation.fold_plan import FoldStep, StepSpec
from fedlearn.config.fields import Positive
from fedlearn.core.errors import SettingError
from fedlearn.core.state import Entries, Update
from fedlearn.plugins import tables
from fedlearn.plugins.options import options_for
from fedlearn.plugins.registry import Registry, call_plugin

FOLD_STEPS = Registry("strategy.steps", tables.FOLD_STEPS, asks=("needs_change", "__call__"))


def steps_of(text: str) -> tuple[StepSpec, ...]:
    """Return the steps of the setting ``strategy.steps``, a JSON object of names with their options, in its order.

    >>> steps_of('{"clip": {"norm": 1.0}}')
    (StepSpec(reference='clip', options={'norm': 1.0}),)

    Raises
    ------
    SettingError
        If the options of a step are no table.
    """
    table = json.loads(text or "{}")
    for name, options in table.items():
        if not isinstance(options, dict):
            raise SettingError(f"strategy.steps.{name}", options, "write it as a table of the step's options")
    return tuple(StepSpec(name, options) for name, options in table.items())


def load_step(spec: StepSpec) -> FoldStep:
    """Return a fold step with its options.

    Raises
    ------
    SettingError
        If there is no such step, or the step does not take these options.
    """
    kind = FOLD_STEPS.load(spec.reference)
    options = options_for(kind, json.dumps(dict(spec.options)), setting=f"strategy.steps.{spec.reference}")
    step: FoldStep = call_plugin(f"strategy.steps.{spec.reference}", spec.reference, kind, **options)
    return step


class ClippedTo:
    """Scales an update down to an L2 norm, which is taken over all sent entries; null entries do not count.

    Parameters
    ----------
    norm : float
        The largest norm that is left unchanged, above 0. It is the norm of a change, as the norm of weights does not
        measure what a node did: ``compression.send`` must be "update".

    References
    ----------
    McMahan et al. 2018, "Learning differentially private recurrent language models" (arXiv:1710.06963), section 2.

    Examples
    --------
    >>> weight, update = ClippedTo(norm=1.0)(1, {"w": Entries(np.array([3.0, 4.0]))})
    >>> update["w"].values.tolist()
    [0.6000000000000001, 0.8]
    """

    needs_change = True

    def __init__(self, *, norm: Positive) -> None:
        self.norm = norm

    def __call__(self, weight: float, update: Update) -> tuple[float, Update]:
        """Return the same weight, and the update times min(1, norm / its L2 norm)."""
        floats = {name: entries.values for name, entries in update.items() if entries.values.dtype.kind == "f"}
        length = math.sqrt(sum(float(np.dot(wide, wide)) for wide in (v.astype(np.float64) for v in floats.values())))
        if length <= self.norm:
            return weight, update
        factor = self.norm / length
        clipped = {
            name: Entries((values * factor).astype(values.dtype), update[name].positions)
            for name, values in floats.items()
        }
        return weight, {**update, **clipped}
