"""What is learned: the table of models, and how one is loaded."""

from __future__ import annotations

import inspect

from fedlearn.data.base import Dataset
from fedlearn.models.base import Evaluation, Model
from fedlearn.registry import Registry

MODELS = Registry(
    "model.name",
    {
        "cnn": "fedlearn.models.cnn:CNN",
        "cnn-large": "fedlearn.models.cnn_large:CNNLarge",
        "resnet18": "fedlearn.models.resnet18:ResNet18",
    },
)


def load_model(name: str, dataset: Dataset) -> Model:
    """Return the model of a name, or of ``module:callable``.

    The callable either takes the data set and returns a `Model`, or takes nothing and returns a torch module, which
    then classifies images by cross-entropy.
    """
    build = MODELS.load(name)
    if len(inspect.signature(build).parameters) == 1:
        model: Model = build(dataset)
        return model
    from fedlearn.models.torch_model import TorchModel

    return TorchModel(build, dataset)


__all__ = ["MODELS", "Evaluation", "Model", "load_model"]
