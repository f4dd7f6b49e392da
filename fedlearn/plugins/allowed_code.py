"""Code of a user's own that an owner has allowed by its SHA-256: what is imported is what was hashed.

The hash is that of the objects' names and of all files of the packages that hold them, with the own files that these
import beside them. Once the code is used, its modules come from the bytes that were hashed: neither a file that is
changed meanwhile, nor compiled code beside it, nor another module of the same name on the path is run. A module that
is neither hashed, nor installed, nor of Python or fedlearn is not found.
"""

from __future__ import annotations

import json
import re
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.abc import SourceLoader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from fedlearn.plugins.own_code import NOT_OWN, OURS, with_imports
from fedlearn.plugins.own_packages import OURS as OUR_NAMES

NAMED = re.compile(r"([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*)*):[A-Za-z_][\w.]*")
LARGEST, MOST_FILES = 1 << 26, 1000  # bytes and files: a server may name any package that is installed
INSTALLED = [Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib")]


@dataclass(frozen=True, slots=True)
class AllowedCode:
    """The files of own code.

    Parameters
    ----------
    objects
        As ``module:name``.
    contents
        File, as seen from where its import begins -> its bytes.
    places
        The same files -> where they lie.
    """

    objects: tuple[str, ...]
    contents: dict[str, bytes] = field(repr=False)
    places: dict[str, Path] = field(repr=False)

    @property
    def sums(self) -> dict[str, str]:
        """File -> SHA-256."""
        return {name: sha256(content).hexdigest() for name, content in sorted(self.contents.items())}

    @property
    def sha256(self) -> str:
        """The SHA-256 of the objects' names and of all files."""
        return sha256(json.dumps([sorted(self.objects), self.sums], sort_keys=True).encode()).hexdigest()

    def use(self) -> None:
        """Import these modules from the bytes that were hashed, and no other own code, for as long as this process."""
        forbid()
        finder = _Hashed(self)
        for name in [name for name in sys.modules if name.partition(".")[0] in finder.tops]:
            del sys.modules[name]  # imported before, from whatever lay there
        sys.meta_path.insert(0, finder)


def forbid() -> None:
    """Import as Python does again."""
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _Hashed)]


def code_of_objects(objects: Iterable[str]) -> AllowedCode | None:
    """Return the code of some objects; None where it cannot be hashed.

    That is what is not found or not written as ``module:name``, what is Python's or fedlearn's, or of an installed
    package that fedlearn itself has loaded, as Flower is, and what is no source code, or too large.
    """
    named, places = tuple(dict.fromkeys(objects)), dict[str, Path]()
    for each in named:
        match = NAMED.fullmatch(each)
        files = _files_of(match[1]) if match else {}
        if not files:
            return None
        places |= files
    try:
        if len(places) > MOST_FILES or sum(path.stat().st_size for path in places.values()) > LARGEST:
            return None
        return AllowedCode(named, {name: path.read_bytes() for name, path in places.items()}, places)
    except OSError:
        return None


def _files_of(top: str) -> dict[str, Path]:
    """Return the files of a package or module, and the own files that they import; none where it is not own code."""
    if top in OUR_NAMES or top in sys.builtin_module_names or top in sys.stdlib_module_names:
        return {}
    spec = PathFinder.find_spec(top)
    path = Path(spec.origin if spec is not None and spec.origin else "").resolve()
    if path.suffix != ".py" or not path.is_file() or path.is_relative_to(OURS / "fedlearn"):
        return {}
    is_installed, loaded = any(path.is_relative_to(each) for each in INSTALLED), sys.modules.get(top)
    if is_installed and loaded and not isinstance(getattr(loaded.__spec__, "loader", None), _Hashed):
        return {}  # its modules cannot be loaded anew
    root, found = path.parent, {path}
    if path.name == "__init__.py":
        root, found = path.parents[1], {each for each in path.parent.rglob("*") if each.is_file()}
    found = {each for each in found if "__pycache__" not in each.parts}
    if not is_installed:
        for each in [each for each in found if each.suffix == ".py"]:
            found |= with_imports(each, root)
    return {each.relative_to(root).as_posix(): each for each in found}


class _Hashed(SourceLoader):
    """Finds and loads modules of hashed files, before all other finders do; finds no other own code.

    Compiled code on the disk is not looked at: `SourceLoader` does so only in a subclass that has `path_stats`.
    """

    def __init__(self, code: AllowedCode) -> None:
        self._places = {_module_of(name): place for name, place in code.places.items() if name.endswith(".py")}
        self._contents = {str(place): code.contents[name] for name, place in code.places.items()}
        self.tops = {name.partition(".")[0] for name in self._places}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return where a module is: here, or as Python finds it; raise ModuleNotFoundError for other own code."""
        if place := self._places.get(name):
            within = [str(place.parent)] if place.name == "__init__.py" else None
            return spec_from_file_location(name, place, loader=self, submodule_search_locations=within)
        top = name.partition(".")[0]
        if top in self.tops or (path is None and top not in OUR_NAMES and _is_own(PathFinder.find_spec(name))):
            raise ModuleNotFoundError(f"{name} is not among the files that the owner has allowed", name=name)
        return None

    def get_filename(self, fullname: str) -> str:
        """Return the file of a module."""
        return str(self._places[fullname])

    def get_data(self, path: str) -> bytes:
        """Return the bytes of a file: those that were hashed, where it is one of these."""
        found = self._contents.get(path)
        return Path(path).read_bytes() if found is None else found


def _module_of(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _is_own(spec: ModuleSpec | None) -> bool:
    if spec is None or spec.origin in ("built-in", "frozen"):
        return False
    places = [spec.origin] if spec.origin else [*(spec.submodule_search_locations or ())]
    known = [*INSTALLED, *(each.resolve() for each in NOT_OWN)]
    return any(not any(Path(place).resolve().is_relative_to(each) for each in known) for place in places)
