"""Turn the keywords and objects of `fedlearn.run` into flat settings, as a settings file holds them."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from fedlearn.config.names import flags, other_names, setting_names
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.data.dataset import Dataset
from fedlearn.data.kept_arrays import without_fingerprint
from fedlearn.data.sources.from_any import brought
from fedlearn.plugins import objects

IN_PYTHON = (
    "training.learner",
    "model.loss",
    "training.optimizer",
    "training.lr_schedule",
    "evaluation.scores",
    "model.initial",
)
KEYWORDS = {
    **{flag.parameter: setting for setting, flag in flags().items()},
    **{setting.rpartition(".")[2]: setting for setting in IN_PYTHON},
    "data": "data.dataset",
}
"""Keyword -> setting: the flags of ``fedlearn simulate``, and settings for which Python users give objects."""
PLAIN = (bool, int, float, str)
OF_FRAMES = ("target", "targets", "bounds", "categories", "target_bounds", "classes", "groups")
"""Keywords of `fedlearn.data.from_frame`."""


def flat_settings(keywords: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted name -> value; objects are packed, and the value of their setting is a text that names them.

    Parameters
    ----------
    keywords
        Values by the names in `KEYWORDS`, or by dotted names; None counts as not given.
    settings
        Values by dotted names; a mapping under the name of a table holds that table's settings.

    Raises
    ------
    UsageError
        If a keyword does not exist, or a setting is given twice.
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
    if "data.dataset" in flat:
        flat |= _as_dataset(flat["data.dataset"], flat)
        if flat.get("privacy.noise") == "secure" and isinstance(flat["data.dataset"], Dataset):
            flat["data.dataset"] = without_fingerprint(flat["data.dataset"])
    return {name: as_value(name, value) for name, value in flat.items()}


def as_value(name: str, value: object) -> Any:
    """Return the value of a setting that stands for a value or an object.

    >>> as_value("compression.codec", ["drop:0.25", "eden"])
    'drop:0.25,eden'
    """
    if isinstance(value, PLAIN) or value is None:
        return value
    if name in ("model.initial", "data.scaling") and hasattr(value, "folder"):  # a run
        value = value.folder
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple):
        parts = [as_value(name, part) for part in value]
        is_whole = "options." in name or any(isinstance(part, dict) for part in parts)  # an option may be a list
        return parts if is_whole else ",".join(map(str, parts))
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a scalar of NumPy
        return value.item()
    try:
        if isinstance(value, Dataset):
            return objects.reference_to(value, name=_word(value.name))
        return objects.reference_to(value)
    except ValueError as error:
        raise SettingError(name, value, str(error)) from None


def _as_dataset(data: Any, flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that data in any form stand for: the data set; if it is given node by node, the nodes, too.

    Raises
    ------
    UsageError
        If the data cannot be read, or other settings say otherwise which node has which examples.
    """
    if data is None or isinstance(data, str | Dataset | Path) or callable(data):
        return {"data.dataset": data}

    found = brought(data)
    settings: dict[str, Any] = {"data.dataset": found.dataset()}
    if found.nodes:
        settings |= {"data.partition": "natural", "clients": len(found.nodes)}
    for name in settings.keys() & flat.keys() - {"data.dataset"}:
        if flat[name] != settings[name]:
            raise SettingError(
                name, flat[name], f"data are given client by client, which is {settings[name]!r}: leave it out"
            )
    return settings


def _word(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name) or "data"


def _taken_apart(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return flat settings: the mapping under the name of a table becomes one setting for each of its entries."""
    tables = {name.partition(".")[0] for name in setting_names() if "." in name}
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if name in tables and isinstance(value, Mapping):
            flat |= {f"{name}.{key}": entry for key, entry in value.items()}
        else:
            flat[name] = value
    return flat


def _unknown(keyword: str) -> str:
    """Return a hint for a keyword that does not exist."""
    if keyword in OF_FRAMES:
        how = f"data=from_frame(frame, {keyword}=..., ...) of fedlearn.data; of clients a dict of these"
        return f"it says what a frame holds: {how}"
    dotted = [name for name in setting_names() if name.rpartition(".")[2] == keyword]
    if dotted:
        return f'write settings={{"{dotted[0]}": ...}}'
    if meant := other_names().get(keyword):
        word = next((word for word, setting in KEYWORDS.items() if setting == meant), f"{meant} in settings=")
        return f"there is no such setting; did you mean {word}?"
    close = get_close_matches(keyword, [*KEYWORDS, *setting_names()], n=1, cutoff=0.5)
    near = f"did you mean {close[0]}?" if close else "help(fedlearn.run) lists the keywords"
    return f"there is no such setting; {near}"
