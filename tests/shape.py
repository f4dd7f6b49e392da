"""Print the shape of the house: rooms, floors, imports, circles, strings that point up, long files; fails on nothing.

    python -m tests.shape                # this checkout
    python -m tests.shape PATH           # another one
    python -m tests.shape --list         # also name the circles, the strings, the long files and the longest chain
    python -m tests.shape --pick 7 --since COMMIT    # in three files changed since: names that another file explains

A *room* is a file or folder at the root of ``fedlearn/``, and each of the other packages; within ``server/`` and
``client/``, a file or folder there. A *floor* is a step of the
longest way down from room to room. Imports are read from the source, those for typing and those within functions too.
A name that *another file explains* is imported from the library, and has a word that stands neither in a glossary nor
in a docstring or comment of the file that uses it.
A *string that points up* names, in ``fedlearn/``, a module that the layers of ``pyproject.toml`` put above its file.
"""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Annotated

import typer

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ("fedlearn", "server", "client", "strategies")
PACKAGES = (*LIBRARY, "experiments")
LONG = 300  # lines of a file
PLUGINS = "fedlearn.plugins.tables"  # the one page of tables that may name what lies above it

Graph = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Module:
    """A source file: its dotted name, its lines, and its syntax tree."""

    name: str
    path: Path
    lines: int
    tree: ast.Module


def modules_in(root: Path) -> dict[str, Module]:
    """Return the modules of the library and of the experiments, by name."""
    found = {}
    for path in (path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        found[name] = Module(name, path, text.count("\n"), ast.parse(text))
    return found


def imports(modules: Mapping[str, Module], *, all_kinds: bool) -> Graph:
    """Return which module imports which; with `all_kinds` also for typing alone and within functions."""
    edges = {}
    for module in modules.values():
        nodes = ast.walk(module.tree) if all_kinds else _at_import(module.tree)
        named = {name for node in nodes for name in _imported(node, modules)}
        edges[module.name] = frozenset(named - {module.name})
    return edges


def _at_import(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        is_typing = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        if not is_typing and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from _at_import(node)


def _imported(node: ast.AST, modules: Mapping[str, Module]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in modules)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            if whole in modules or node.module in modules:
                yield whole if whole in modules else node.module


def components(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that import one another in a circle (Tarjan's strongly connected components)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in order:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == order[name]:
            place = stack.index(name)
            found.append(stack[place:])
            del stack[place:]

    for name in graph:
        if name not in order:
            visit(name)
    return found


def longest_chain(graph: Graph) -> list[str]:
    """Return the longest way down; of a circle one module counts."""
    of = {name: group[0] for group in components(graph) for name in group}
    below: dict[str, set[str]] = {}
    for name, others in graph.items():
        below.setdefault(of[name], set()).update(of[other] for other in others if of[other] != of[name])

    @cache
    def chain(name: str) -> tuple[str, ...]:
        return (name, *max((chain(other) for other in sorted(below[name])), key=len, default=()))

    return list(max((chain(name) for name in sorted(below)), key=len))


def room_of(name: str) -> str:
    """Return the room in which a module lies.

    >>> room_of("fedlearn.data.encoded_tables"), room_of("server.phases.selection"), room_of("fedlearn")
    ('fedlearn.data', 'server', 'fedlearn')
    """
    parts = name.split(".")
    return ".".join(parts[: 2 if parts[0] == "fedlearn" else 1])


def rooms(graph: Graph) -> Graph:
    """Return which room imports from which."""
    found: dict[str, set[str]] = {}
    for name, others in graph.items():
        found.setdefault(room_of(name), set()).update(room_of(other) for other in others)
    return {room: frozenset(others - {room, "fedlearn"}) for room, others in found.items() if room != "fedlearn"}


def rooms_in(graph: Graph, package: str) -> Graph:
    """Return which room within a package imports which."""

    def room(name: str) -> str:
        return name.removeprefix(f"{package}.").partition(".")[0] if name.startswith(f"{package}.") else ""

    found: dict[str, set[str]] = {}
    for name, others in graph.items():
        found.setdefault(room(name), set()).update(map(room, others))
    return {name: frozenset(others - {name, ""}) for name, others in found.items() if name}


def layers_of(root: Path, package: str) -> list[str]:
    """Return the layers of the import contract within a package."""
    tools = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    contracts = tools["importlinter"]["contracts"]
    return next(list(each["layers"]) for each in contracts if each.get("containers") == [package])


def attributes_of(tree: ast.AST, name: str) -> set[str]:
    """Return the names that the methods of a class assign to ``self``.

    >>> attributes_of(ast.parse("class A:\\n def f(self):\\n  self.x = self.y = z.w = 0"), "A") == {"x", "y"}
    True
    """
    (found,) = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name)
    targets = (node for node in ast.walk(found) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return {node.attr for node in targets if isinstance(node.value, ast.Name) and node.value.id == "self"}


def floors_of(root: Path) -> dict[str, int]:
    """Return room -> its place in the layers of the import contracts, 0 on top."""
    tools = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    packages, kernel = (
        next(each["layers"] for each in tools["importlinter"]["contracts"] if lowest in str(each.get("layers")))
        for lowest in ("'fedlearn'", "'config'")
    )
    ordered = [*packages[:-1], *(re.sub(r"\w+", r"fedlearn.\g<0>", layer) for layer in kernel)]
    groups = [re.split(r"[ |:]+", layer) for layer in ordered]
    return {room: place for place, group in enumerate(groups) for room in group}


def strings_up(modules: Mapping[str, Module], floors: Mapping[str, int]) -> list[str]:
    """Return the strings of the kernel, docstrings left out, that name a module of a room above."""
    found = []
    for module in modules.values():
        if not module.name.startswith("fedlearn") or module.name == PLUGINS:
            continue
        here = floors.get(room_of(module.name), -1)
        docstrings = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                file, _, _ = node.value.partition(":")
                named = file.replace("/", ".").removesuffix(".py").removesuffix(".__init__")
                is_reference = file != node.value or "/" in file
                if is_reference and named in modules and floors.get(room_of(named), 99) < here:
                    found.append(f"{module.path.name}:{node.lineno} {node.value}")
    return found


def picked(root: Path, since: str, seed: int) -> list[Path]:
    """Return three files of the library that have changed since a commit, drawn by a seed."""
    command = ["git", "-C", str(root), "diff", "--name-only", "--diff-filter=d", since, "--", *LIBRARY]
    changed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    files = sorted(name for name in changed if name.endswith(".py") and not name.endswith("__init__.py"))
    return [root / name for name in sorted(Random(seed).sample(files, min(3, len(files))))]


def words_of(text: str) -> set[str]:
    """Return the words of a text or of names, in lower case and without the s of a plural.

    >>> sorted(words_of("RoundStrategy, _takes_steps"))
    ['round', 'step', 'strategy', 'take']
    """
    return {word.lower().removesuffix("s") for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", text)}


def explained_elsewhere(module: Module, modules: Mapping[str, Module], known: set[str]) -> dict[str, str]:
    """Return each name that another file explains -> that file; `known` are the words of the glossaries."""
    text = module.path.read_text(encoding="utf-8")
    said = [*re.findall(r'"""(.*?)"""', text, re.DOTALL), *re.findall(r"# (.*)", text)]
    own = known | words_of(" ".join(said))
    found = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in LIBRARY:
            for alias in node.names:
                if not words_of(alias.name) <= own:
                    place = modules.get(f"{node.module}.{alias.name}") or modules.get(node.module or "")
                    found[alias.name] = str(node.module) if place is None else place.name
    return found


def say_picked(root: Path, since: str, seed: int) -> None:
    """Print, for three files drawn from a change, the names that another file explains."""
    modules = modules_in(root)
    pages = [(root / page).read_text(encoding="utf-8") for page in ("docs/reference/glossary.md", "fedlearn/README.md")]
    known = words_of(" ".join(text.partition("## Glossary")[2] or text for text in pages))
    at = {module.path: module for module in modules.values()}
    for path in picked(root, since, seed):
        found = explained_elsewhere(at[path], modules, known)
        print(f"{path.relative_to(root)}: {len(found)}")
        for name, place in sorted(found.items()):
            print(f"    {name}  {place}")


def main(
    root: Annotated[Path, typer.Argument(help="A checkout.")] = ROOT,
    named: Annotated[bool, typer.Option("--list", help="Name what is counted.")] = False,
    pick: Annotated[int | None, typer.Option(metavar="SEED", help="Look at three files of a change.")] = None,
    since: Annotated[str, typer.Option(metavar="COMMIT", help="Where the change begins.")] = "HEAD~1",
) -> None:
    """Print the shape of a checkout."""
    if pick is not None:
        say_picked(root, since, pick)
        return
    modules = modules_in(root)
    at_import, of_all_kinds = imports(modules, all_kinds=False), imports(modules, all_kinds=True)
    library = [module for module in modules.values() if module.name.split(".")[0] in LIBRARY]
    circles = [group for group in components(of_all_kinds) if len(group) > 1]
    chain, up = longest_chain(at_import), strings_up(modules, floors_of(root))
    long = sorted((module for module in library if module.lines > LONG), key=lambda module: -module.lines)
    client = "".join(path.read_text(encoding="utf-8") for path in (root / "client").rglob("*.py"))
    tests = sum(path.read_text(encoding="utf-8").count("\n") for path in (root / "tests").rglob("*.py"))
    kernel = sorted((root / "fedlearn").iterdir())
    within = {package: rooms_in(at_import, package) for package in ("server", "client")}
    names = Counter(module.path.stem for module in library if module.path.stem != "__init__")
    counted = {
        "files at the root of fedlearn": sum(path.suffix == ".py" for path in kernel),
        "folders at the root of fedlearn": sum((path / "__init__.py").exists() for path in kernel),
        "rooms": len(rooms(at_import)),
        "arrows between rooms": sum(map(len, rooms(at_import).values())),
        "floors": len(longest_chain(rooms(at_import))),
        **{f"rooms of {package}/": len(within[package]) for package in within},
        **{f"arrows between rooms of {package}/": sum(map(len, within[package].values())) for package in within},
        **{f"floors of the contract of {package}/": len(layers_of(root, package)) for package in within},
        "attributes of ServerRun": len(attributes_of(modules["server.run"].tree, "ServerRun")),
        "modules": len(modules),
        "names that several modules bear": sum(count > 1 for count in names.values()),
        "imports between modules, of all kinds": sum(map(len, of_all_kinds.values())),
        "longest chain of modules": len(chain),
        "circles, typing and deferred imports counted": len(circles),
        "strings that point up": len(up),
        f"files of the library above {LONG} lines": len(long),
        "parses of the settings in client/": len(re.findall(r"\bfrom_flower\(", client)),
        "lines of the library": sum(module.lines for module in library),
        "lines of the experiments": sum(module.lines for module in modules.values()) - sum(m.lines for m in library),
        "lines of the tests": tests,
    }
    for what, number in counted.items():
        print(f"{number:>7,}  {what}")
    if named:
        lists = {
            "circles": [" - ".join(group) for group in circles], "longest chain": chain, "strings that point up": up,
            "long files": [f"{module.lines} {module.name}" for module in long],
        }  # fmt: skip
        for what, each in lists.items():
            print(f"\n{what}\n  " + "\n  ".join(each))


if __name__ == "__main__":
    typer.run(main)
