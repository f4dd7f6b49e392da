"""Modules that have moved load by their former names: in a user's import, in the settings of a stored run, in a pickle.

Both names are one module. The first import by a former name warns, once for each line of `MOVED`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from warnings import warn

from fedlearn.plugging.own_packages import BELOW, NAMES, claimed, exists, is_taken

MOVED: dict[str, str] = {}
"""Former name of a module, or of a package with all that is in it -> its name today."""

ROOTS = ("fedlearn", *NAMES)
_told: set[str] = set()


def name_today(name: str) -> str:
    """Return the name of a module today; empty if it has not moved.

    >>> name_today("fedlearn.plugging.moved")
    ''
    """
    line = _line_of(name)
    return MOVED[line] + _own(name).removeprefix(line) if line else ""


def _line_of(name: str) -> str:
    """Return the longest name in `MOVED` that is the module's or that of a package around it; empty without one."""
    line = _own(name)
    while line and line not in MOVED:
        line = line.rpartition(".")[0]
    return line


def _own(name: str) -> str:
    """Return the first name of a module: client.app of fedlearn.client.app."""
    own = name.removeprefix(BELOW)
    return own if own.partition(".")[0] in NAMES else name


def names_of(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that has the former name of a module which is now in the package."""

    def find(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(import_module(module), name)
        _tell(module.rpartition(".")[0], module)
        return found

    return find


def _tell(former: str, today: str) -> None:
    if former not in _told:
        _told.add(former)
        warn(f"{former} is now {today}; plugins import from fedlearn.extend", DeprecationWarning, stacklevel=3)


class _Moved:
    """Finds modules by their former names: the modules of today, by a second name."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        today = name_today(name) if name.partition(".")[0] in ROOTS else ""
        if not today or is_taken(_own(name)):
            return None
        with claimed(), suppress(ModuleNotFoundError):  # of a package that is not installed, as experiments
            return ModuleSpec(name, self) if exists(today) else None  # type: ignore[arg-type]
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        with claimed():
            module = import_module(name_today(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        former, module.__spec__ = module.__spec__.name, module.__spec__.loader_state
        line = _line_of(former)
        _tell(line, MOVED[line])


MOVED_MODULES = _Moved()
