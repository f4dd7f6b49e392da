"""Wrapping of a user's torch module as a `Model`.

The module may be given as a class, as a function that returns a module, or as a module, without any code of ours. A
class or function gets the `DataSpec` as a parameter named ``spec`` or annotated so, and ``model.options`` as its other
parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, cast

import torch
from torch import nn

from fedlearn.core.errors import FedlearnError, SettingError, said
from fedlearn.data.data_spec import DataSpec
from fedlearn.models.model import Model
from fedlearn.models.torch.inputs import inputs_of
from fedlearn.models.torch.torch_model import TorchModel
from fedlearn.plugins.options import options_for
from fedlearn.plugins.tracebacks import shortened

REQUIRED = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
SPEC_TYPES = (DataSpec, DataSpec.__name__)  # a text under `from __future__ import annotations`


def as_model(given: object, spec: DataSpec, options: Mapping[str, Any], reference: str) -> Model:
    """Return a user's model: a `Model` as it is, a torch module wrapped.

    Parameters
    ----------
    given
        A `torch.nn.Module`, whose weights are then the initial state; its class; a function that returns a new module;
        or a `Model`.
    spec
        Shape, classes and bounds of the data.
    options
        The user's ``model.options``.
    reference
        Name of the model in messages.

    Raises
    ------
    SettingError
        If `given` is none of these, cannot be built, or does not take the options; in one line.
    """
    build = _builder(given, _as_transformed(spec), options, reference)
    try:
        with torch.random.fork_rng():
            made = build()
        if isinstance(made, nn.Module):
            return TorchModel(cast(Callable[[], nn.Module], build), spec)
    except FedlearnError:
        raise
    except Exception as error:  # of the user's own code
        raise SettingError("model.name", reference, f"it cannot be built: {said(shortened(error))}") from error
    if isinstance(made, Model):
        return made
    wanted = "it must make a torch.nn.Module or a fedlearn.models.Model"
    raise SettingError("model.name", reference, f"{wanted}, not {type(made).__name__}")


def _as_transformed(spec: DataSpec) -> DataSpec:
    """Return the facts of examples as a module gets them, after ``data.transform`` and ``data.collate``."""
    return inputs_of(spec).spec if spec.is_made_by_functions else spec  # type: ignore[attr-defined]


def _builder(given: object, spec: DataSpec, options: Mapping[str, Any], reference: str) -> Callable[[], object]:
    """Return a function that returns a new module, or the model, on each call."""
    if isinstance(given, nn.Module):
        return _of_instance(partial(deepcopy, given), options)
    if isinstance(given, Model) and not isinstance(given, type):
        return _of_instance(lambda: given, options)
    if not callable(given):
        raise SettingError("model.name", reference, "it is neither a torch.nn.Module class nor a function")
    parameters = _parameters(given)
    takes_spec = {name for name, each in parameters.items() if name == "spec" or each.annotation in SPEC_TYPES}
    arguments = options_for(given, options, setting="model.options", reserved=takes_spec)
    arguments |= dict.fromkeys(takes_spec, spec)
    missing = [name for name, each in parameters.items() if _is_required(each) and name not in arguments]
    if missing:
        raise SettingError(
            "model.name", reference,
            f"it needs {', '.join(missing)}: give model.options.{missing[0]}, or name the parameter spec, which gets "
            "the DataSpec (shape, classes) of the data",
        )  # fmt: skip
    return partial(given, **arguments)


def _of_instance(build: Callable[[], object], options: Mapping[str, Any]) -> Callable[[], object]:
    if options:
        raise SettingError("model.options", dict(options), "the model is an object, which takes no options")
    return build


def _parameters(given: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(given).parameters
    except ValueError:  # some builtins have no signature
        return {}


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.kind in REQUIRED and parameter.default is inspect.Parameter.empty
