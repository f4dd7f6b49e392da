"""Checks that a private model fits its data set: it must be a table, and its target of the right kind."""

from __future__ import annotations

from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import DataSpec, TableSchema
from fedlearn.models.models_of_tables import table_of
from fedlearn.private_trees.sums.views import Views

KNOWN = {"classes": "adult", "numbers": "california, diabetes"}  # our tables, by the kind of target


def views_of(schema: TableSchema) -> Views:
    """Return one view of each declared column: numbers by their bounds, then categories."""
    return Views.declare(
        len(schema.features),
        bounds=dict(enumerate(schema.bounds.values())),
        categories={len(schema.bounds) + i: len(words) for i, words in enumerate(schema.categories.values())},
        one_each=True,
    )


def wrong_target(name: str, spec: DataSpec, *, predicts: str) -> SettingError:
    """Return the error of a model that predicts ``classes`` or ``numbers``, and a table with another target."""
    target = f"{table_of(name, spec).target!r} of {spec.name!r}"
    allowed = f"take data.dataset {KNOWN[predicts]}, or a .toml file"
    return SettingError(
        "model.name", name, f"the target {target} does not fit: the model predicts {predicts}: {allowed}"
    )
