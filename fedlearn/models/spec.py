"""All that is said about one model: how it is built, and which settings go with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from fedlearn.config.options import options_for
from fedlearn.data.base import DataSpec
from fedlearn.errors import SettingError
from fedlearn.models.base import Model
from fedlearn.registry import load_plugin

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
    rounds : {"", "once", "turns"}, default=""
        How many rounds it takes with that strategy: as set; one of all nodes; a turn for each node.
    is_private : bool, default=False
        Nodes spend ``privacy.epsilon`` on it: in a simulation, noise is seeded unless another is asked for.
    preload : {"torch", "trees"}, default="torch"
        What workers have imported before they are forked.

    Examples
    --------
    >>> ModelSpec("my_package.forest:build", dataset="adult", strategy="forest_union", rounds="once").preload
    'torch'
    """

    build: Build | str
    dataset: str = "auto"
    strategy: str = ""
    rounds: Literal["", "once", "turns"] = ""
    is_private: bool = False
    preload: Literal["torch", "trees"] = "torch"

    def made(self, spec: DataSpec, options: Mapping[str, Any]) -> Model:
        """Return the model for a data set."""
        build: Build = load_plugin("model.name", self.build) if isinstance(self.build, str) else self.build
        return build(spec, options)


def torch_module(reference: str) -> ModelSpec:
    """Return the row of a torch module: a class or function ``module:name``.

    It is called with the data set's `DataSpec` if it has a parameter named ``spec``, and with ``model.options`` as its
    other keyword arguments. A `torch.nn.Module` that it returns, (B, C, H, W) float32 -> (B, K) logits, is wrapped
    into a `TorchModel`; a `Model` is taken as it is.
    """
    return ModelSpec(partial(_of_module, reference))


def _of_module(reference: str, spec: DataSpec, options: Mapping[str, Any]) -> Model:
    build = load_plugin("model.name", reference)
    if isinstance(build, ModelSpec):
        raise SettingError("model.name", reference, "a ModelSpec from outside has a name in capitals: rename it")
    if not callable(build):
        raise SettingError("model.name", reference, "it is neither a torch.nn.Module class nor a function")
    if not spec.is_image:
        raise SettingError("model.name", reference, f"it takes images, and {spec.name!r} is a table")
    checked = options_for(build, options, setting="model.options", reserved=("spec",))
    if "spec" in inspect.signature(build).parameters:
        checked["spec"] = spec
    from fedlearn.models.torch_model import as_model

    return as_model(partial(build, **checked), spec, reference)
