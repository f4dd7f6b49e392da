"""Check that a model of tables gets one: a declared table, with as many targets as the model takes."""

from __future__ import annotations

from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import DataSpec, TableSchema


def table_of(name: str, spec: DataSpec, *, of_one_target: bool = True) -> TableSchema:
    """Return the schema of the data set; raise `SettingError` where it is no table, or declares several targets."""
    if spec.table is None:
        raise SettingError("model.name", name, f"the model learns from tables, and {spec.name!r} is none")
    if of_one_target and spec.table.targets:
        several = f"{spec.name!r} declares {len(spec.table.targets)}: declare one as target"
        raise SettingError("model.name", name, f"the model learns one target, and {several}")
    return spec.table
