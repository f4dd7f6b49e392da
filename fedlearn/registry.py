"""Names of plugins, resolved when they are first used.

A registry is a table from a short name to ``"module:attribute"``. Nothing is imported until a name is asked for, so
that listing the models does not import torch. A full reference works wherever a name does: that is how code outside
this repository plugs in.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedlearn import objects
from fedlearn.errors import SettingError


def load_reference(reference: str) -> Any:
    """Return what ``"module:attribute"``, ``"folder/file.py:attribute"`` or ``"object:..."`` (`objects`) names.

    >>> load_reference("math:tau")
    6.283185307179586
    """
    if reference.startswith(objects.SCHEME):
        return objects.load(reference)
    module_name, _, attribute = reference.partition(":")
    loaded: Any = _of_file(Path(module_name)) if module_name.endswith(".py") else import_module(module_name)
    for part in attribute.split("."):
        loaded = getattr(loaded, part)
    return loaded


def _of_file(path: Path) -> Any:
    """Return the module in a file, under the name by which others import it."""
    whole = path.resolve()
    if not whole.is_file():
        raise ImportError(f"there is no file {path}")
    for folder in (Path(place or ".").resolve() for place in sys.path):
        parts = whole.relative_to(folder).with_suffix("").parts if whole.is_relative_to(folder) else ("",)
        spec = find_spec(".".join(parts)) if all(part.isidentifier() for part in parts) else None
        if spec is not None and spec.origin is not None and Path(spec.origin).resolve() == whole:
            return import_module(spec.name)
    raise ImportError(f"{path} is in no folder that imports look in: start from its folder, or set PYTHONPATH")


def load_plugin(setting: str, reference: str) -> Any:
    """Return what the value of a setting refers to; SettingError where that cannot be loaded."""
    try:
        return load_reference(reference)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingError(setting, reference, f"it cannot be loaded: {error}") from error


class Registry(Mapping[str, str]):
    """A table of plugin names.

    Parameters
    ----------
    setting
        The setting whose value is looked up here; it stands in the error message.
    table
        Name -> ``"module:attribute"``.
    """

    def __init__(self, setting: str, table: dict[str, str]) -> None:
        self.setting = setting
        self._table = table

    def __getitem__(self, name: str) -> str:
        """Return the reference of a name."""
        return self._table[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._table)

    def __len__(self) -> int:
        """Return how many names there are."""
        return len(self._table)

    def load(self, name: str) -> Any:
        """Return the object behind a name or a full ``module:attribute`` reference."""
        reference = self._table.get(name, name)
        if ":" not in reference:
            choices = ", ".join(self._table)
            raise SettingError(self.setting, name, f"choose one of {choices}, or give module:attribute")
        if name in self._table:
            return load_reference(reference)  # ours must load; hiding the cause would not help anybody
        return load_plugin(self.setting, reference)
