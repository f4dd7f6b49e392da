"""Tell type checkers where the names of `fedlearn.extend` lie in a wheel: with all our packages below `fedlearn`."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = "fedlearn/extend.py"


def stub(names: dict[str, str]) -> str:
    """Return a stub file that imports names, given as module -> the names of it that stand there.

    >>> print(stub({"client.memory": "NodeMemory", "fedlearn.core.metric": "LOSS Metric"}), end="")
    from fedlearn.client.memory import NodeMemory as NodeMemory
    from fedlearn.core.metric import LOSS as LOSS, Metric as Metric
    """
    lines = []
    for module, listed in names.items():
        below = module if module.startswith("fedlearn.") else f"fedlearn.{module}"
        lines.append(f"from {below} import {', '.join(f'{name} as {name}' for name in listed.split())}\n")
    return "".join(lines)


class TypesOfAWheel(BuildHookInterface[Any]):
    """Puts the stub file of `fedlearn.extend` into a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write it, as hatchling asks before it builds; an editable installation has none."""
        if version != "editable":
            written = Path(self.directory) / "extend.pyi"
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_text(stub(_names(Path(self.root) / PAGE)), encoding="utf-8")
            build_data["force_include"][str(written)] = f"{PAGE}i"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove it from the folder of the artifacts."""
        (Path(self.directory) / "extend.pyi").unlink(missing_ok=True)


def _names(page: Path) -> dict[str, str]:
    tree = ast.parse(page.read_text(encoding="utf-8"))
    table = next(
        each for each in tree.body if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "_NAMES"
    )
    names: dict[str, str] = ast.literal_eval(table.value)
    return names
