"""Tables of plugins, which are imported when they are first used.

A registry is a table from a short name to ``"module:attribute"``. A plugin is imported when its name is looked up, so
that a list of the models does not import torch. A full reference works wherever a name does: so code from outside this
repository plugs in.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from hashlib import blake2b
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from fedlearn.core.errors import FedlearnError, SettingError, quoted, said
from fedlearn.plugins import objects
from fedlearn.plugins.own_packages import NAMES
from fedlearn.plugins.tracebacks import place_of, shortened

MOST_NAMES = 12  # of a module, in an error
ELSEWHERE = {"fedprox": "fedavg with training.proximal_mu above 0"}  # names that others have for settings of ours


def load_reference(reference: str) -> Any:
    """Load the object named by ``"module:attribute"``, ``"folder/file.py:attribute"`` or ``"object:..."`` (`objects`).

    >>> load_reference("math:tau")
    6.283185307179586
    """
    if reference.startswith(objects.SCHEME):
        return objects.load(reference)
    module_name, colon, attribute = reference.partition(":")
    if not colon:  # the policy of a node takes a text with a colon for code
        raise ValueError("it is no module:attribute")
    loaded: Any = _of_file(Path(module_name)) if module_name.endswith(".py") else import_module(module_name)
    for part in attribute.split("."):
        loaded = getattr(loaded, part)
    return loaded


def _of_file(path: Path) -> Any:
    """Return the module in a file: the one that imports find, where they find the file, else a module of its own."""
    whole = path.resolve()
    if not whole.is_file():
        raise ImportError(f"there is no file {path}")
    for folder in (Path(place or ".").resolve() for place in sys.path):
        parts = whole.relative_to(folder).with_suffix("").parts if whole.is_relative_to(folder) else ("",)
        spec = find_spec(".".join(parts)) if all(part.isidentifier() for part in parts) else None
        if spec is not None and spec.origin is not None and Path(spec.origin).resolve() == whole:
            return import_module(spec.name)
    name = f"{whole.stem}_{blake2b(str(whole).encode(), digest_size=8).hexdigest()}"
    if name not in sys.modules:
        spec = spec_from_file_location(name, whole)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def load_plugin(setting: str, reference: str) -> Any:
    """Load the object that the value of a setting names; raise SettingError if loading fails."""
    try:
        return load_reference(reference)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingError(setting, reference, f"{_why_not(error, reference)}{_own_file(reference)}") from error
    except SyntaxError as error:
        place, line = f"{Path(error.filename or '').name}, line {error.lineno}", said((error.text or "").strip())
        raise SettingError(setting, reference, f"{place}, `{line}`: {said(error.msg)}: mend this line") from error
    except (Exception, SystemExit) as error:  # of the module's own code
        raise SettingError(setting, reference, f"it cannot be loaded: {said(shortened(error))}") from error


def _why_not(error: Exception, reference: str) -> str:
    """Return why a reference cannot be loaded, and what to do."""
    module, _, attribute = reference.partition(":")
    if isinstance(error, ModuleNotFoundError) and error.name:
        if f"{module}.".startswith(f"{error.name}."):
            return f"there is no module {said(module)} here or installed; a file is named FILE.py:{said(attribute)}"
        return f"{said(module)} imports {said(error.name)}, which is not installed: install it"
    if isinstance(error, AttributeError) and not place_of(error):
        names = [name for name in dir(error.obj) if not name.startswith("_")]
        near, there = did_you_mean(attribute, names, is_code=True), f"; it has {', '.join(names[:MOST_NAMES])}"
        return f"{said(module)} has no {said(attribute)}{near or there}"
    return f"it cannot be loaded: {said(error)}"


def call_plugin(setting: str, reference: str, plugin: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Call a plugin and return its result; turn a foreign exception into a SettingError of one line, with its place."""
    try:
        return plugin(*given, **named)
    except (FedlearnError, OSError):
        raise
    except (Exception, SystemExit) as error:
        raise SettingError(setting, reference, f"it cannot be used here: {said(shortened(error))}") from error


def _own_file(reference: str) -> str:
    """Return how to name a file of the user's that has the name of a package of ours; empty if there is none."""
    module, _, attribute = reference.partition(":")
    path = Path(module.replace(".", "/") + ".py")
    is_hidden = module.partition(".")[0] in NAMES and path.is_file()
    return f"; your own {path} is named {path}:{attribute}" if is_hidden else ""


def did_you_mean(name: str, names: Iterable[str], *, is_code: bool = False) -> str:
    """Return a hint at the name that was meant, for the end of an error; an empty text if no name is like it.

    Names are compared in small letters with dashes, those of code as they are.

    >>> did_you_mean("FedAvg", ["fedavg", "median"]), did_you_mean("x", ["fedavg"])
    ('; did you mean fedavg?', '')
    """
    if name.lower() in ELSEWHERE:
        return f"; did you mean {ELSEWHERE[name.lower()]}?"
    wanted = name[:50] if is_code else name[:50].lower().replace("_", "-")
    close = get_close_matches(wanted, names, n=1, cutoff=0.7)
    return f"; did you mean {close[0]}?" if close else ""


class Registry(Mapping[str, str]):
    """A table of plugin names.

    Parameters
    ----------
    setting
        The setting whose values are looked up here, for error messages.
    table
        Name -> ``"module:attribute"``.
    asks
        Attributes that every plugin must have; ``"__call__"`` where it is called.
    others
        What else the setting takes, in words.
    """

    def __init__(
        self, setting: str, table: dict[str, str], *, asks: Sequence[str] = (), others: str = "module:attribute"
    ) -> None:
        self.setting = setting
        self._others = others
        self._table = table
        self._asks = asks

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
            raise SettingError(
                self.setting,
                name,
                f"choose one of {choices}, or give {self._others}{did_you_mean(name, self._table)}",
            )
        if name in self._table:
            return load_reference(reference)  # a failure of ours is a bug: its traceback must be seen
        found = load_plugin(self.setting, reference)
        if lacks := [attribute for attribute in self._asks if not hasattr(found, attribute)]:
            what = "cannot be called" if lacks[0] == "__call__" else f"has no {lacks[0]}"
            raise SettingError(self.setting, name, f"it {what}: it is of {quoted(type(found))}")
        return found
