"""All that is said about one model: how it is built, and which settings go with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fedlearn.data.base import DataSpec
from fedlearn.models.base import Model
from fedlearn.plugging.registry import load_plugin
from fedlearn.words.errors import SettingError

Build = Callable[[DataSpec, Mapping[str, Any]], Model]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One row of the table of models; from outside, ``module:NAME`` in capitals.

    Parameters
    ----------
    build : callable or str
        ``build(spec, options) -> Model`` for a data set and the user's ``model.options``, or the ``module:name`` of
        one. A row is read by processes that import no torch: a reference keeps it for those that do.
    dataset : str, default="auto"
        What ``data.dataset = "auto"`` means for it.
    strategy : str, default=""
        The strategy for its updates, unless the user names another.
    rounds : str, default=""
        How many rounds the model takes with that strategy: as set (``""``); one of all nodes (``"once"``); a turn for
        each node (``"turns"``); or what a function returns, ``"module:function"`` of the flat settings and the
        defaults: all nodes take part in each round, and a run keeps to that number, as it divides the budget.
    is_private : bool, default=False
        Nodes spend ``privacy.epsilon`` on it: in a simulation, noise is seeded unless another is asked for.
    trains_in_steps : bool, default=True
        Whether nodes train it by the steps of an optimizer, with torch; workers have torch imported then.
    imports : sequence of str, default=()
        Further modules that workers have imported before they are forked.
    sums : bool, default=False
        Nodes send noisy sums that are added up: ``privacy.trust`` says whose noise protects.

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

    @property
    def is_planned(self) -> bool:
        """Whether a function says how many rounds there are."""
        return ":" in self.rounds

    def made(self, spec: DataSpec, options: Mapping[str, Any]) -> Model:
        """Return the model for a data set."""
        build: Build = load_plugin("model.name", self.build) if isinstance(self.build, str) else self.build
        return build(spec, options)


def torch_module(given: object, *, imports: Sequence[str] = ()) -> ModelSpec:
    """Return the row of a torch module: its class, a function that returns one, a module, or ``module:name`` of these.

    A class or function is called with the data set's `DataSpec` if it has a parameter named ``spec`` or annotated so,
    and with ``model.options`` as its other keyword arguments. A `torch.nn.Module` is wrapped into a `TorchModel`; a
    `Model` is taken as it is.
    """
    return ModelSpec(partial(_of_module, given), imports=imports)


def _of_module(given: object, spec: DataSpec, options: Mapping[str, Any]) -> Model:
    found = load_plugin("model.name", given) if isinstance(given, str) else given
    reference = given if isinstance(given, str) else getattr(given, "__qualname__", type(given).__name__)
    if isinstance(found, ModelSpec):
        raise SettingError("model.name", reference, "a ModelSpec from outside has a name in capitals: rename it")
    from fedlearn.models.wrapping import as_model

    return as_model(found, spec, options, reference)
