"""What is learned: the table of models, and how one is loaded."""

from __future__ import annotations

import inspect
import json
from typing import Any

from fedlearn.data.base import AnyDataset, Dataset
from fedlearn.errors import SettingError
from fedlearn.models.base import NOTHING, Evaluation, Model
from fedlearn.registry import Registry

MODELS = Registry(
    "model.name",
    {
        "cnn": "fedlearn.models.cnn:CNN",
        "cnn-large": "fedlearn.models.cnn_large:CNNLarge",
        "resnet18": "fedlearn.models.resnet18:ResNet18",
        "dp-forest": "fedlearn.models.forest:dp_forest",
        "dp-relay": "fedlearn.models.relay:dp_relay",
        "dp-classifier": "fedlearn.models.forest:dp_classifier",
        "dp-random-forest": "fedlearn.models.forest:dp_random_forest",
        "pf-forest": "fedlearn.models.forest:pf_forest",
    },
)

AUTO_DATASETS: dict[str, str] = {
    "dp-forest": "auto-regression",
    "dp-relay": "auto-regression",
    "dp-classifier": "adult",
    "dp-random-forest": "adult",
    "pf-forest": "adult",
}
"""What ``data.dataset = "auto"`` means for models of tables; for all others it is images."""


def load_model(name: str, dataset: AnyDataset, options: str = "") -> Model:
    """Return the model of a name, or of ``module:callable``.

    The callable either takes the data set, and maybe the options of ``model.options``, and returns a `Model`; or takes
    nothing and returns a torch module, which then classifies images by cross-entropy.
    """
    build = MODELS.load(name)
    parameters = list(inspect.signature(build).parameters.values())
    if len(parameters) == 2 and all(each.default is inspect.Parameter.empty for each in parameters):
        with_options: Model = build(dataset, _parsed(options))
        return with_options
    if options:
        raise SettingError("model.options", options, f"model {name!r} has none")
    if len(parameters) == 1:
        model: Model = build(dataset)
        return model
    if not isinstance(dataset, Dataset):
        trees = ", ".join(AUTO_DATASETS)
        raise SettingError("model.name", name, f"it takes images, and {dataset.name!r} is a table: take one of {trees}")
    from fedlearn.models.torch_model import TorchModel

    return TorchModel(build, dataset)


def _parsed(options: str) -> dict[str, Any]:
    try:
        parsed = json.loads(options or "{}")
    except json.JSONDecodeError as error:
        raise SettingError("model.options", options, f"it is no JSON object: {error}") from None
    if not isinstance(parsed, dict):
        raise SettingError("model.options", options, "it is no JSON object")
    return parsed


__all__ = ["AUTO_DATASETS", "MODELS", "NOTHING", "Evaluation", "Model", "load_model"]
