"""Settings from anywhere: files in TOML, JSON and YAML, files that they include, the environment, and what was given.

Each is a layer with the name of its source; a later layer wins. Merged, the layers are one flat table (`load.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedlearn.config.load import SINGLE_OPTION, flattened, settings_bytes, toml_value
from fedlearn.config.names import hint_at, setting_names
from fedlearn.config.syntax import parsed
from fedlearn.core.errors import UsageError, said

PREFIX = "FEDLEARN__"  # of environment variables: FEDLEARN__TRAINING__LR is training.lr
INCLUDE = "include"  # a key of a file: a file or a list of files, relative to it; it wins over what it includes
GIVEN = "given"
ENVIRONMENT = "environment"


class Layer(NamedTuple):
    """The settings of one source: dotted name -> value."""

    source: str
    flat: Mapping[str, Any]


def layers_of_file(path: Path, *, within: tuple[Path, ...] = ()) -> list[Layer]:
    """Return the settings of a file, behind those of the files that it includes.

    Raises
    ------
    UsageError
        If a file cannot be read, or includes itself.
    """
    tree = dict(_tree_of(path))
    included = tree.pop(INCLUDE, [])
    names = [included] if isinstance(included, str) else included
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"--config {said(path)}: {INCLUDE} is no file and no list of files")
    before: list[Layer] = []
    for name in names:
        other = path.parent / name
        if other.resolve() in (path.resolve(), *within):
            raise UsageError(f"--config {said(path)}: it includes {said(name)}, which includes it: leave one out")
        before += layers_of_file(other, within=(path.resolve(), *within))
    return [*before, Layer(str(path), flattened(tree))]


def _tree_of(path: Path) -> Mapping[str, Any]:
    data, shown = settings_bytes(path), said(path)
    try:
        tree = parsed(data, KINDS.get(path.suffix.lower(), "TOML"))
    except ValueError as error:
        raise UsageError(f"--config {shown}: {error}") from None
    if not isinstance(tree, dict):
        raise UsageError(f"--config {shown}: it holds no table of settings")
    return {str(name): value for name, value in tree.items()}


KINDS = {".json": "JSON", ".yaml": "YAML", ".yml": "YAML"}
"""Suffix of a file -> its format; any other file is TOML."""


def layer_of_environment(environment: Mapping[str, str]) -> Layer:
    """Return the settings of environment variables whose names begin with `PREFIX`; values are as of ``--set``.

    >>> layer_of_environment({"FEDLEARN__TRAINING__LR": "0.1", "FEDLEARN_DATA": "/data"}).flat
    {'training.lr': 0.1}
    """
    flat: dict[str, Any] = {}
    for variable in sorted(environment):
        if variable.upper().startswith(PREFIX):
            name = variable[len(PREFIX) :].lower().replace("__", ".")
            if name not in setting_names() and not SINGLE_OPTION.fullmatch(name):
                raise UsageError(f"{said(variable)}: there is no setting {said(name)}{hint_at(name)}; else unset it")
            flat[name] = toml_value(environment[variable])
    return Layer(ENVIRONMENT, flat)


def said_of_environment(layer: Layer) -> str:
    """Return which settings were read from the environment, in one line; empty if none was."""
    values = (f"{name} = {value!r}" for name, value in layer.flat.items())
    return f"from the environment ({PREFIX}*): {', '.join(values)}" if layer.flat else ""


def merged(layers: Sequence[Layer]) -> dict[str, Any]:
    """Return the settings of all layers; a whole table of options replaces single options of earlier layers.

    >>> merged([Layer("a", {"strategy.options.trim": 0.1, "seed": 1}), Layer("b", {"strategy.options": {}})])
    {'seed': 1, 'strategy.options': {}}
    """
    flat: dict[str, Any] = {}
    for layer in layers:
        replaced = [name for name in flat if (one := SINGLE_OPTION.fullmatch(name)) and one[1] in layer.flat]
        flat = {name: value for name, value in flat.items() if name not in replaced} | dict(layer.flat)
    return flat


def source_of(name: str, layers: Sequence[Layer]) -> str:
    """Return the source of a setting, or of the options that a setting holds; empty if no layer has it."""
    holding = (source for source, flat in reversed(layers) if any(f"{each}.".startswith(f"{name}.") for each in flat))
    return next(holding, "")


def place_of(name: str, layers: Sequence[Layer]) -> str:
    """Return where an error says that a setting stands: a file, or the variable of the environment."""
    source = source_of(name, layers)
    return f"{PREFIX}{name.upper().replace('.', '__')}" if source == ENVIRONMENT else source
