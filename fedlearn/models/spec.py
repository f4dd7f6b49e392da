"""Rows of the table of models: how a model is built, and which settings go with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import DataSpec
from fedlearn.models.model import Model
from fedlearn.plugins.registry import load_plugin

Build = Callable[[DataSpec, Mapping[str, Any]], Model]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One row of the table of models; a user's row is named ``module:NAME``, in capitals.

    Parameters
    ----------
    build : callable or str
        Function ``build(spec, options) -> Model`` of a data set and the user's ``model.options``, or its
        ``module:name``. Processes without torch read rows, too: a reference is imported only where a model is built.
    dataset : str, default="auto"
        Data set that ``data.dataset = "auto"`` stands for.
    strategy : str, default=""
        Strategy for its updates, unless the user names another.
    rounds : str, default=""
        Number of rounds with that strategy. ``""``: as the settings say. ``"once"``: one round of all nodes.
        ``"turns"``: one round for each node. ``"module:function"``: the number that this function of the flat settings
        and the defaults returns; all nodes take part in each round, and the run keeps to that number, as it divides
        the budget.
    is_private : bool, default=False
        Whether nodes spend ``privacy.epsilon`` on it: in a simulation, noise is seeded unless the user sets another.
    trains_in_steps : bool, default=True
        Whether nodes train it by the steps of an optimizer, with torch; workers then import torch.
    imports : sequence of str, default=()
        Further modules that are imported before workers are forked.
    sums : bool, default=False
        Whether nodes send noisy sums that are added up: ``privacy.trust`` says whose noise protects.
    all_rows : bool, default=False
        Whether all rows of a table are used: none is held out for testing, and the state is not evaluated.

    Examples
    --------
    >>> ModelSpec("my_package.forest:build", dataset="adult", strategy="forest_union", rounds="once").is_planned
    False
    """

    build: Build | str
    dataset: str = "auto"
    strategy: str = ""
    rounds: str = ""
    is_private: bool = False
    trains_in_steps: bool = True
    imports: Sequence[str] = ()
    sums: bool = False
    all_rows: bool = False

    @property
    def is_planned(self) -> bool:
        """Whether a function returns the number of rounds."""
        return ":" in self.rounds

    def check(self, name: str) -> None:
        """Raise SettingError, with the row's name, where `rounds` is none of its values."""
        if self.rounds not in ("", "once", "turns") and not self.is_planned:
            allowed = "write 'once', 'turns' or module:function, or leave it out"
            raise SettingError("model.name", name, f"its ModelSpec has rounds={self.rounds!r}: {allowed}")

    def build_model(self, spec: DataSpec, options: Mapping[str, Any]) -> Model:
        """Return the model for a data set, with the user's ``model.options``."""
        build: Build = load_plugin("model.name", self.build) if isinstance(self.build, str) else self.build
        return build(spec, options)


def torch_module(given: object, *, imports: Sequence[str] = ()) -> ModelSpec:
    """Return the row of a torch module.

    Parameters
    ----------
    given
        Class of a module, function that returns a module, a module, or the ``module:name`` of one of these. A class or
        function gets the data set's `DataSpec` if it has a parameter named ``spec`` or annotated so, and
        ``model.options`` as its other keyword arguments. A `torch.nn.Module` is wrapped into a `TorchModel`; a `Model`
        is used as it is.
    imports
        Further modules that are imported before workers are forked.

    Examples
    --------
    >>> from torch import nn
    >>> from fedlearn.data.cifar10 import SPEC
    >>> row = torch_module(lambda spec: nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, spec.classes)))
    >>> row.build_model(SPEC, {}).names
    ['1.weight', '1.bias']
    """
    return ModelSpec(partial(_of_module, given), imports=imports)


def _of_module(given: object, spec: DataSpec, options: Mapping[str, Any]) -> Model:
    found = load_plugin("model.name", given) if isinstance(given, str) else given
    reference = given if isinstance(given, str) else getattr(given, "__qualname__", type(given).__name__)
    if isinstance(found, ModelSpec):
        raise SettingError("model.name", reference, "a ModelSpec from outside has a name in capitals: rename it")
    from fedlearn.models.torch.wrapping import as_model

    return as_model(found, spec, options, reference)
