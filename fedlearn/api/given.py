"""Keywords and objects -> the flat settings that every other door of a run takes, too."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from fedlearn.config.names import flags, setting_names
from fedlearn.data.base import Dataset, TableDataset
from fedlearn.plugging import objects
from fedlearn.words.errors import SettingError, UsageError

IN_PYTHON = ("training.learner", "model.loss", "training.optimizer")
KEYWORDS = {
    **{flag.parameter: setting for setting, flag in flags().items()},
    **{setting.rpartition(".")[2]: setting for setting in IN_PYTHON},
    "data": "data.dataset",
}
"""Keyword -> setting: the flags of ``fedlearn simulate``, and what only Python has something better than a name for."""
PLAIN = (bool, int, float, str)


def flat_settings(keywords: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted name -> value; objects are packed, and what stands in their place names them.

    Parameters
    ----------
    keywords
        By the names in `KEYWORDS`, or dotted; None is not given.
    settings
        By dotted names; a table of a table's settings is taken apart.

    Raises
    ------
    UsageError
        For a keyword that is none, or something that is given twice.
    """
    flat = _taken_apart(settings)
    for keyword, value in keywords.items():
        if value is None:
            continue
        name = KEYWORDS.get(keyword, keyword)
        if name in flat:
            raise UsageError(f"{keyword}: {name} is given twice")
        if "." not in keyword and keyword not in KEYWORDS:
            raise UsageError(f"{keyword}: {_unknown(keyword)}")
        flat[name] = value
    return {name: as_value(name, value) for name, value in flat.items()}


def as_value(name: str, value: object) -> Any:
    """Return what stands in a settings table for a value or an object.

    >>> as_value("compression.codec", ["drop:0.25", "eden"])
    'drop:0.25,eden'
    """
    if isinstance(value, PLAIN) or value is None:
        return value
    if name == "data.dataset" and not isinstance(value, Dataset | TableDataset | Path) and not callable(value):
        raise SettingError(name, value, f"make a data set of it first: fedlearn.data.{_reader_for(value)}")
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple):
        return ",".join(str(as_value(name, part)) for part in value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a number of NumPy
        return value.item()
    try:
        if isinstance(value, Dataset | TableDataset):
            return objects.reference_to(value, name=_word(value.name))
        return objects.reference_to(value)
    except ValueError as error:
        raise SettingError(name, value, str(error)) from None


def _reader_for(value: object) -> str:
    """Return what makes a data set of an object of another library.

    >>> _reader_for(([1.0], [0])), _reader_for([])
    ('from_arrays(X, y)', 'from_arrays(X, y)')
    """
    if hasattr(value, "column_names") or isinstance(value, Mapping):
        return "from_hf(data, inputs=..., target=...), of the library datasets"
    if isinstance(value, list | tuple) or hasattr(value, "dtype") or hasattr(value, "columns"):
        return "from_arrays(X, y)"
    return "from_torch(data), of pairs of an input and what is to be learned"


def _word(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name) or "data"


def _taken_apart(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return flat settings: a table that is named alone is that of its settings, as in a file."""
    tables = {name.partition(".")[0] for name in setting_names() if "." in name}
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if name in tables and isinstance(value, Mapping):
            flat |= {f"{name}.{key}": entry for key, entry in value.items()}
        else:
            flat[name] = value
    return flat


def _unknown(keyword: str) -> str:
    """Return what to write instead of a keyword that is none."""
    dotted = [name for name in setting_names() if name.rpartition(".")[2] == keyword]
    if dotted:
        return f'write settings={{"{dotted[0]}": ...}}'
    close = get_close_matches(keyword, [*KEYWORDS, *setting_names()], n=1, cutoff=0.5)
    return f"there is no such setting{f'; did you mean {close[0]}?' if close else ''}"
