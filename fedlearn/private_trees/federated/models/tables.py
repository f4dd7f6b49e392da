"""Checks that a private model fits its data set: it must be a table, and its target of the right kind."""

from __future__ import annotations

from fedlearn.core.errors import SettingError
from fedlearn.data.base import DataSpec, TableSchema

KNOWN = {"classes": "adult", "numbers": "california, diabetes"}  # our tables, by the kind of target


def table_of(name: str, spec: DataSpec, *, of_one_target: bool = True) -> TableSchema:
    """Return the schema of the data set; raise `SettingError` where it is no table, or declares several targets."""
    if spec.table is None:
        raise SettingError("model.name", name, f"the model learns from tables, and {spec.name!r} is none")
    if of_one_target and spec.table.targets:
        several = f"{spec.name!r} declares {len(spec.table.targets)}: declare one as target"
        raise SettingError("model.name", name, f"the model learns one target, and {several}")
    return spec.table


def wrong_target(name: str, spec: DataSpec, *, predicts: str) -> SettingError:
    """Return the error of a model that predicts ``classes`` or ``numbers``, and a table with another target."""
    target = f"{table_of(name, spec).target!r} of {spec.name!r}"
    allowed = f"take data.dataset {KNOWN[predicts]}, or a .toml file"
    return SettingError(
        "model.name", name, f"the target {target} does not fit: the model predicts {predicts}: {allowed}"
    )
