"""Import our packages `server`, `client` and `strategies`, even where a user has modules of these names.

A user's folder may well have a ``client.py`` or ``strategies.py``, and Python looks there first. A process that loads
our apps `claim`s the names for good: the command, workers, Ray's actors. A user's own process has them `claimed` for
the time of a run; afterwards the names are the user's again. Users import ours as ``fedlearn.server`` and so on.

A wheel has their files below `fedlearn`, so that it takes no common name in site-packages; a clone and a bundle of
Flower, which finds ``server.app:app`` and ``client.app:app`` by these names, have them beside it. The modules are
`server` and so on everywhere: the names in pickles, settings and hashes are the same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parent
NAMES = ("server", "client", "strategies")
HOME = PACKAGE if (PACKAGE / NAMES[0]).is_dir() else ROOT
"""The folder with our other packages."""
OURS = ("fedlearn", *NAMES)
BELOW = "fedlearn."


def is_taken(name: str) -> bool:
    """Return whether a foreign module has the name of one of ours."""
    root = name.partition(".")[0]
    return root in NAMES and root in sys.modules and not _is_ours(sys.modules[root])


def claim() -> None:
    """Have this process find our packages by their names from now on.

    Raises
    ------
    ImportError
        If another fedlearn of this process has claimed them: that of a client whose version runs no other beside it.
    """
    if any(type(each).__name__ == _First.__name__ and each not in (FIRST, LAST) for each in sys.meta_path):
        raise ImportError(
            "this client's fedlearn is of another version than the server's app, and cannot run it: install the same "
            "version on both"
        )
    if FIRST not in sys.meta_path:
        sys.meta_path.insert(0, FIRST)
    for name in NAMES:
        if is_taken(name):
            _theirs.update(_removed(name))
            sys.modules.update(_below(name, _ours))


def give_up() -> None:
    """Have this process find the packages of another fedlearn, as a bundle brings along; forget the modules of ours."""
    sys.meta_path[:] = [each for each in sys.meta_path if not type(each).__module__.startswith(BELOW)]
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]


@contextmanager
def claimed() -> Iterator[None]:
    """Have the block find our packages by their names; afterwards the names are those of the user's modules again."""
    was_claimed = FIRST in sys.meta_path
    claim()
    try:
        yield
    finally:
        if not was_claimed:
            sys.meta_path.remove(FIRST)
            for name in filter(_is_shadowed, NAMES):
                _ours.update(_removed(name))
                sys.modules.update(_below(name, _theirs))


class _First:
    """Finds our packages before other modules of the same names.

    No subclass of the finder in `importlib.abc`: to import it takes as long as all other imports up to here.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [str(HOME)]) if path is None and name in NAMES else None


class _Below:
    """Finds our packages as ``fedlearn.server`` and so on: the same modules, by a second name."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        own = name.removeprefix(BELOW)
        if own == name or own.partition(".")[0] not in NAMES:
            return None
        with claimed():
            return ModuleSpec(name, self) if exists(own) else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        with claimed():
            module = import_module(spec.name.removeprefix(BELOW))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state  # it keeps the name under which it imports its own parts


FIRST, LAST, BELOW_FEDLEARN = _First(), _First(), _Below()
"""`LAST` stands behind all other finders: a process that claims no names has ours where the user has no such module."""
_theirs: dict[str, ModuleType] = {}  # modules of the user, while ours have their names
_ours: dict[str, ModuleType] = {}


def exists(own: str) -> bool:
    """Return whether there is a module of ours by this name; imports the packages around it."""
    parent, _, _ = own.rpartition(".")
    places = import_module(parent).__path__ if parent else [str(HOME)]
    return PathFinder.find_spec(own, places) is not None


def own_files() -> dict[str, Path]:
    """Return each Python file of ours by its path in a clone: ``server/app.py``, say."""
    below = {HOME / name for name in NAMES}
    found = {
        path.relative_to(ROOT).as_posix(): path for path in PACKAGE.rglob("*.py") if below.isdisjoint(path.parents)
    }
    return found | {path.relative_to(HOME).as_posix(): path for each in sorted(below) for path in each.rglob("*.py")}


def _is_ours(module: ModuleType) -> bool:
    return Path(getattr(module, "__file__", None) or "/").resolve().is_relative_to(HOME / module.__name__)


def _is_shadowed(name: str) -> bool:
    spec = PathFinder.find_spec(name)
    return spec is not None and Path(spec.origin or "/").resolve() != HOME / name / "__init__.py"


def _below(name: str, modules: dict[str, ModuleType]) -> dict[str, ModuleType]:
    return {each: module for each, module in modules.items() if each.partition(".")[0] == name}


def _removed(name: str) -> dict[str, ModuleType]:
    found = _below(name, sys.modules)
    for each in found:
        del sys.modules[each]
    return found
