"""What a run leaves behind: each file, with its writer and its readers."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd


class _Callable(ModuleType):
    """A module that is called as well: ``fedlearn.runs()`` lists runs, and this package has that name already."""

    def __call__(self, *folders: str | Path) -> pd.DataFrame:
        """See `fedlearn.api.runs`."""
        found: pd.DataFrame = import_module("fedlearn.api").runs(*folders)  # it stands above this package
        return found


sys.modules[__name__].__class__ = _Callable
