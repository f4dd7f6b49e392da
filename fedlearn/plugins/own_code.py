"""The code of the user's own that settings name by ``module:name``: its files, and those that they import beside them.

Installed packages and fedlearn itself are no own code: their versions stand in environment.json.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

REFERENCE = re.compile(r"(?<![\w.:/-])([\w./-]+\.py|[A-Za-z_][\w.]*):[A-Za-z_]")
OURS = Path(__file__).parents[2]
NOT_OWN = (*(OURS / name for name in ("fedlearn", "client", "server", "strategies")),
           *(Path(sysconfig.get_path(kind)) for kind in ("stdlib", "purelib", "platlib")))  # fmt: skip


def own_code(texts: Iterable[str]) -> dict[str, str]:
    """Return file -> SHA-256 of the own code that some values of settings name; files as seen from where imports begin.

    A module that cannot be found here is left out: another process may have it.
    """
    found: dict[Path, Path] = {}
    for reference in sorted({reference for text in texts for reference in REFERENCE.findall(text)}):
        if (path := _file_of(reference)) is not None:
            root = path.parents[0 if reference.endswith(".py") else _depth(reference, path)]
            found |= dict.fromkeys(with_imports(path, root), root)
    return {str(path.relative_to(root)): _sha256(path) for path, root in sorted(found.items())}


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _file_of(reference: str) -> Path | None:
    if reference.endswith(".py"):
        path = Path(reference).resolve()
        return path if path.is_file() else None
    with suppress(ImportError, ValueError, AttributeError):
        spec = find_spec(reference)
        path = Path(spec.origin if spec is not None and spec.origin else "").resolve()
        if path.suffix == ".py" and _is_own(path):
            return path
    return None


def _is_own(path: Path) -> bool:
    return not any(path.is_relative_to(each) for each in NOT_OWN)


def _depth(module: str, path: Path) -> int:
    """Return how many folders lie between a module's file and where its import begins."""
    return module.count(".") + (path.name == "__init__.py")


def with_imports(path: Path, root: Path) -> set[Path]:
    """Return a file and all own files below `root` that it imports, and these in turn."""
    found, waiting = {path}, [path]
    while waiting:
        each = waiting.pop()
        with suppress(SyntaxError, ValueError, OSError):
            for name in set(_imported(ast.parse(each.read_bytes()), each.relative_to(root).parts[:-1])):
                for place in (root.joinpath(*name[:-1], f"{name[-1]}.py"), root.joinpath(*name, "__init__.py")):
                    if place not in found and place.is_file() and _is_own(place):
                        found.add(place)
                        waiting.append(place)
    return found


def _imported(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the parts of every module that code imports, and of what it takes from one, which may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            before = package[: len(package) - node.level + 1] if node.level else ()
            module = (*before, *(node.module.split(".") if node.module else ()))
            names = [module, *((*module, alias.name) for alias in node.names)]
        else:
            continue
        yield from (name[: end + 1] for name in names for end in range(len(name)))
