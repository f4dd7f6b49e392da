"""Settings as flat tables of dotted names, in TOML files, ``--set`` and Flower's run config; and `RunConfig` of them.

An error names the setting, its value and the file. `pyproject.toml` holds the flat table of all defaults under
``[tool.flwr.app.config]``; ``python -m tests.flower_settings`` writes it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedlearn.config.fields import as_text
from fedlearn.config.names import hint_at, moved, names_of, other_names, setting_names, words_of
from fedlearn.config.schema import RunConfig
from fedlearn.config.syntax import parsed
from fedlearn.core.errors import SettingError, UsageError, said
from fedlearn.plugins.ranges import allowed_by
from fedlearn.plugins.registry import did_you_mean

MOST_BYTES = 1 << 22  # of a file of settings
FlatValue = bool | int | float | str
Source = str | Callable[[str], str]
SINGLE_OPTION = re.compile(r"(\w+\.(?:\w+_)?options)\.(.+)")  # setting that holds a table, and a name in it


def config_from(flat: Mapping[str, Any], *, source: Source = "") -> RunConfig:
    """Return the settings in which the dotted names of `flat` replace the defaults.

    Parameters
    ----------
    flat
        Dotted name -> value, as ``{"training.lr": 0.1}``.
    source
        Where the values came from, for the error message: a file's path, or empty; or a function of a setting's name.

    Raises
    ------
    SettingError
        For an unknown name, or a value that is not allowed; in one line.
    """
    tree: dict[str, Any] = {}
    for name, value in _with_whole_options(flat).items():
        table, _, key = name.rpartition(".")
        branch = tree.setdefault(table, {}) if table else tree
        if not isinstance(branch, dict):
            raise SettingError(name, value, f"{table} is no table of settings")
        branch[key] = value
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        raise _first_error(error, source) from None


def _with_whole_options(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flat settings with one table in place of single options; a single option wins over the table."""
    whole = dict(flat)
    for name in flat:
        if found := SINGLE_OPTION.fullmatch(name):
            setting, option = found.groups()
            try:
                options = json.loads(as_text(whole.get(setting, "")) or "{}")
            except ValueError as error:
                raise SettingError(setting, whole[setting], str(error)) from None
            whole[setting] = {**options, option: whole.pop(name)}
    return whole


def to_flower(config: RunConfig) -> dict[str, FlatValue]:
    """Return the settings as Flower's flat run config.

    >>> to_flower(RunConfig())["training.batch_size"]
    100
    """
    flat: dict[str, FlatValue] = {}
    for name, value in config.model_dump().items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": entry for key, entry in value.items()}
        else:
            flat[name] = value
    return flat


_last: tuple[Mapping[str, Any], RunConfig] | None = None


def from_flower(run_config: Mapping[str, Any]) -> RunConfig:
    """Return the settings in a Flower run config; the last settings are kept, as every message brings them again."""
    global _last
    if _last is None or _last[0] != run_config:
        _last = (dict(run_config), config_from(run_config))
    return _last[1]


def forget_last() -> None:
    """Forget the last settings, and so all that was made of them: a run reads its data anew, which may have changed."""
    global _last
    _last = None


def flat_from_file(path: Path) -> dict[str, Any]:
    """Return the settings of a TOML file as a flat table of dotted names.

    Raises
    ------
    UsageError
        If the file cannot be read, or holds no TOML.

    Examples
    --------
    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile(suffix=".toml") as file:
    ...     _ = Path(file.name).write_text("training.lr = 0.1")
    ...     flat_from_file(Path(file.name))
    {'training.lr': 0.1}
    """
    try:
        return flat_from_toml(settings_bytes(path))
    except ValueError as error:
        raise UsageError(f"--config {said(path)}: {error}") from None


def settings_bytes(path: Path) -> bytes:
    """Return the content of a file of settings; raise UsageError if it cannot be read, or is too large to be one."""
    shown = said(path)
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--config {shown}: {said(getattr(error, 'strerror', None) or error)}: name a file of settings"
        ) from None
    if len(data) > MOST_BYTES:
        raise UsageError(f"--config {shown}: it has more than {MOST_BYTES} bytes: name a file of settings")
    return data


def flat_from_toml(data: bytes) -> dict[str, Any]:
    """Return the settings in the bytes of a TOML file as a flat table; raise ValueError if they are no TOML."""
    return flattened(parsed(data))


def flattened(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables of settings as one flat table of dotted names."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict) and "." not in name:  # else it holds options
            flat |= {f"{name}.{key}": entry for key, entry in value.items()}
        else:
            flat[name] = value
    return flat


def flat_from_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Return the settings of ``--set key=value`` arguments; values are TOML, bare words are strings.

    >>> flat_from_assignments(["training.lr=0.1", "model.name=cnn"])
    {'training.lr': 0.1, 'model.name': 'cnn'}
    """
    flat: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--set {said(assignment)}: write it as key=value, for example --set training.lr=0.1")
        flat[name.strip()] = toml_value(text.strip())
    return flat


def toml_value(text: str) -> Any:
    """Return a value as TOML writes it; any other text is a text."""
    try:
        table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # bare words, more digits than Python reads, lists in lists in lists
        return text
    return table["value"] if len(table) == 1 else text


def _first_error(error: ValidationError, source: Source) -> SettingError:
    """Return the first error that pydantic found as one line: the setting, its value and what is allowed."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    place_of = source if isinstance(source, str) else source(name)
    where = f" (in {place_of})" if place_of else ""
    if place := moved().get(name):
        part = name.partition(".")[0]
        return SettingError(name, first["input"], f"it is an option of its {part} now: write {place}{where}")
    if first["type"].startswith("model_"):
        meant = other_names().get(name) or next(each for each in setting_names() if each.startswith(f"{name}."))
        return SettingError(name, first["input"], f"it is a table of settings: did you mean {meant}?{where}")
    if first["type"] == "extra_forbidden":
        while isinstance(first["input"], dict) and first["input"]:  # a table that is not there: as it was written
            key, first["input"] = next(iter(first["input"].items()))
            name = f"{name}.{key}"
        return SettingError(name, first["input"], f"there is no such setting{hint_at(name)}{where}")
    near = did_you_mean(str(first["input"]), names_of(name)) if first["type"] == "literal_error" else ""
    return SettingError(name, first["input"], f"{allowed_by(error, words_of(name))}{near}{where}")
