"""Models: the table of models, and how a model is loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import DataSpec
from fedlearn.models.model import NOTHING, Evaluation, Model, Planned
from fedlearn.models.spec import ModelSpec, torch_module
from fedlearn.plugins import tables
from fedlearn.plugins.objects import name_in
from fedlearn.plugins.registry import did_you_mean, load_plugin, load_reference
from fedlearn.plugins.tables import STATES


class Models(Mapping[str, ModelSpec]):
    """The rows of a table of models, each loaded on first use.

    An entry names a row, in capitals; or a torch module, which is not imported for its row.
    """

    def __init__(self, table: Mapping[str, str]) -> None:
        self._table = table
        self._rows: dict[str, ModelSpec] = {}

    def __getitem__(self, name: str) -> ModelSpec:
        """Return the row of a name."""
        reference = self._table[name]
        if name not in self._rows:
            is_row = name_in(reference).isupper()
            self._rows[name] = load_reference(reference) if is_row else torch_module(reference)
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._table)

    def __len__(self) -> int:
        """Return how many models there are."""
        return len(self._table)


MODELS = Models(tables.MODELS)


def model_spec(name: str) -> ModelSpec:
    """Return the row of a model: of a name of the table, of ``module:SPEC`` in capitals, or of a torch module.

    Only names in capitals are imported here: rows are also read by processes that import no torch.

    Raises
    ------
    SettingError
        If there is no such model, or if the `ModelSpec` of a user is not sound.
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
        row.check(name)
        return row
    if callable(row):  # a torch module whose name is all capitals, as MLP
        return torch_module(name)
    raise SettingError("model.name", name, f"a name in capitals must be a ModelSpec, not {type(row).__name__}")


def load_model(name: str, spec: DataSpec, options: str = "", loss: str = "") -> Model:
    """Return the model of a name for a data set; its options and loss are the texts of the settings."""
    model = model_spec(name).build_model(spec, json.loads(options or "{}"))
    if loss:
        from fedlearn.models.objectives import objective_for
        from fedlearn.models.torch.torch_model import TorchModel

        if not isinstance(model, TorchModel):
            raise SettingError(
                "model.loss", loss, f"model {name!r} is no torch module and has its own loss: leave model.loss empty"
            )
        model.objective = objective_for(spec, loss)
    return model


def planned_for(model: Model, config: RunConfig) -> Model:
    """Return the model of a run with these settings, with the state that its learner needs."""
    model = model.planned(config) if isinstance(model, Planned) else model
    if make := STATES.get(config.training.learner):
        changed: Model = load_plugin("training.learner", make)(model, config)
        return changed
    return model


__all__ = [
    "MODELS",
    "NOTHING",
    "Evaluation",
    "Model",
    "ModelSpec",
    "load_model",
    "model_spec",
    "planned_for",
    "torch_module",
]
