"""From a torch module, however it is given, to a Model.

A class, a function that returns a module, or a module: none of them has to know of us. What a class or function asks
for is given: the `DataSpec` to a parameter named ``spec`` or annotated so, ``model.options`` to the others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, cast

import torch
from torch import nn

from fedlearn.data.base import DataSpec
from fedlearn.models.base import Model
from fedlearn.models.torch_model import TorchModel
from fedlearn.plugging.options import options_for
from fedlearn.words.errors import FedlearnError, SettingError, said

REQUIRED = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
SPEC_TYPES = (DataSpec, DataSpec.__name__)  # as an annotation stands there under `from __future__ import annotations`


def as_model(given: object, spec: DataSpec, options: Mapping[str, Any], reference: str) -> Model:
    """Return the model of what a user gives: a `Model` as it is, a torch module wrapped.

    Parameters
    ----------
    given
        A `torch.nn.Module`, whose weights are then the initial state; its class; a function that returns a new one, or
        a `Model`.
    reference
        What it is called in a message.

    Raises
    ------
    SettingError
        Where it is none of these, cannot be built, or its options are not right; in one line.
    """
    build = _builder(given, spec, options, reference)
    try:
        with torch.random.fork_rng():
            made = build()
        if isinstance(made, nn.Module):
            return TorchModel(cast(Callable[[], nn.Module], build), spec)
    except FedlearnError:
        raise
    except Exception as error:  # of the user's own code
        raise SettingError(
            "model.name", reference, f"it cannot be built: {type(error).__name__}: {said(error)}"
        ) from error
    if isinstance(made, Model):
        return made
    wanted = "it must make a torch.nn.Module or a fedlearn.models.Model"
    raise SettingError("model.name", reference, f"{wanted}, not {type(made).__name__}")


def _builder(given: object, spec: DataSpec, options: Mapping[str, Any], reference: str) -> Callable[[], object]:
    """Return what makes a new module, or the model, each time that it is called."""
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
            f"it needs {', '.join(missing)}: give model.options.{missing[0]}, or take a parameter named spec, which is "
            "given the DataSpec (shape, classes) of the data",
        )  # fmt: skip
    return partial(given, **arguments)


def _of_instance(build: Callable[[], object], options: Mapping[str, Any]) -> Callable[[], object]:
    if options:
        raise SettingError("model.options", dict(options), "the model is made already: it takes none")
    return build


def _parameters(given: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(given).parameters
    except ValueError:  # some builtins have none to show
        return {}


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.kind in REQUIRED and parameter.default is inspect.Parameter.empty
