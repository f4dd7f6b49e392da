"""Flower's private names are imported in one folder, so that a new version of Flower is mended there."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("fedlearn", "server", "client", "strategies", "experiments")
QUARANTINE = "fedlearn/flower/"
BESIDE = {"experiments/others/secagg.py"}  # measures what Flower has in its older interface alone
PUBLIC = {  # as Flower's API reference lists them
    "flwr.app",
    "flwr.clientapp",
    "flwr.clientapp.mod",
    "flwr.serverapp",
    "flwr.serverapp.strategy",
    "flwr.simulation",
}


def modules_in(path: Path) -> set[str]:
    """Return the modules of Flower that a file imports, also within functions, and by name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module)
            case ast.Call(func=ast.Name("import_module"), args=[ast.Constant(value=str(module)), *_]):
                found.add(module)
    return {module for module in found if module.split(".")[0] == "flwr"}


def test_private_names_are_imported_in_their_own_folder_alone():
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    private = {str(path.relative_to(ROOT)): modules_in(path) - PUBLIC for path in paths}
    inside = {path for path in private if path.startswith(QUARANTINE) or path in BESIDE}
    assert any(private[path] for path in inside)
    assert {path: modules for path, modules in private.items() if modules and path not in inside} == {}
