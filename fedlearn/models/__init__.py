"""What is learned: the table of models, and how one is loaded."""

from __future__ import annotations

import json

from fedlearn.data.base import DataSpec
from fedlearn.errors import SettingError
from fedlearn.models.base import NOTHING, Evaluation, Model
from fedlearn.models.spec import ModelSpec, torch_module
from fedlearn.objects import name_in
from fedlearn.registry import did_you_mean, load_plugin

LOOPS = ("fedlearn.models.kernels.preload",)

MODELS: dict[str, ModelSpec] = {
    "linear": torch_module("fedlearn.models.networks.linear:Linear"),
    "mlp": torch_module("fedlearn.models.networks.mlp:MLP"),
    "cnn": torch_module("fedlearn.models.networks.cnn:CNN", imports=LOOPS),
    "cnn-large": torch_module("fedlearn.models.networks.cnn_large:CNNLarge", imports=LOOPS),
    "resnet18": torch_module("fedlearn.models.networks.resnet18:ResNet18"),
    "lstm": torch_module("fedlearn.models.networks.lstm:LSTM"),
    "transformer": torch_module("fedlearn.models.networks.transformer:Transformer"),
    "dp-forest": ModelSpec(
        "fedlearn.models.forest:dp_forest", "auto-regression", "forest_union", "once", is_private=True, preload="trees"
    ),
    "dp-relay": ModelSpec(
        "fedlearn.models.relay:dp_relay", "auto-regression", "relay", "turns", is_private=True, preload="trees"
    ),
    "dp-classifier": ModelSpec(
        "fedlearn.models.forest:dp_classifier", "adult", "forest_union", "once", is_private=True, preload="trees"
    ),
    "dp-random-forest": ModelSpec(
        "fedlearn.models.forest:dp_random_forest", "adult", "forest_union", "once", is_private=True, preload="trees"
    ),
    "pf-forest": ModelSpec(
        "fedlearn.models.forest:pf_forest", "adult", "forest_union", "once", is_private=True, preload="trees"
    ),
    "dp-boosting": ModelSpec(
        "fedlearn.models.sums:dp_boosting", "adult", "sums", "planned", is_private=True, preload="trees", sums=True
    ),
    "dp-naive-bayes": ModelSpec(
        "fedlearn.models.sums:dp_naive_bayes", "adult", "sums", "once", is_private=True, preload="trees", sums=True
    ),
}


def model_spec(name: str) -> ModelSpec:
    """Return the row of a model: of a name, of ``module:SPEC`` in capitals, or of a torch module ``module:name``.

    Only names in capitals are imported: a row must not need torch before a process that trains.
    """
    if name in MODELS:
        return MODELS[name]
    if ":" not in name:
        raise SettingError(
            "model.name",
            name,
            f"choose one of {', '.join(MODELS)}, or give module:attribute{did_you_mean(name, MODELS)}",
        )
    if not name_in(name).isupper():
        return torch_module(name)
    row = load_plugin("model.name", name)
    if isinstance(row, ModelSpec):
        return row
    if callable(row):  # a module with a short name, as MLP
        return torch_module(name)
    raise SettingError("model.name", name, f"a name in capitals must be a ModelSpec, not {type(row).__name__}")


def load_model(name: str, spec: DataSpec, options: str = "", loss: str = "") -> Model:
    """Return the model of a name for a data set; the texts are those of ``model.options`` and ``model.loss``."""
    model = model_spec(name).made(spec, json.loads(options or "{}"))
    if loss:
        from fedlearn.models.objectives import objective_for
        from fedlearn.models.torch_model import TorchModel

        if not isinstance(model, TorchModel):
            raise SettingError(
                "model.loss", loss, f"model {name!r} is no torch module, and has its own: leave it empty"
            )
        model.objective = objective_for(spec, loss)
    return model


__all__ = ["MODELS", "NOTHING", "Evaluation", "Model", "ModelSpec", "load_model", "model_spec", "torch_module"]
