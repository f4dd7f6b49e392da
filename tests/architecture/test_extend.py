"""What a plugin imports stands on one page, `fedlearn.extend`, and plugins that we ship or show import from it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedlearn import extend

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = (
    "fedlearn",
    "fedlearn.extend",
    "fedlearn.data",
    "fedlearn.kernels",
    "fedlearn.private_trees",
    "fedlearn.statistics",
    "fedlearn.privacy",
)
OTHERS = {
    "fedlearn.models.networks.cnn": "docs/howto/use_the_model.md, where a reader's own module stands",
    "fedlearn.models.networks.transformer": "docs/howto/what_is_sent.md, the same",
    "fedlearn.private_trees.exact": "docs/howto/boosted_trees.md: trees of a table in one place",
    "fedlearn.algorithms.heterofl": "docs/gallery/random_slices.md: HeteroFL with another choice of units",
    "fedlearn.predicting": "docs/howto/predict.md: a stored preparation",
    "fedlearn.config.policy": "docs/howto/deployment_owner.md: the owner's file",
    "fedlearn.algorithms.conformance.quadratics": "the test of fedlearn new --algorithm: problems with formulas",
    "fedlearn.commands.check": "the same test: what a real run comes to",
}
SHOWN = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEMPLATES = sorted((ROOT / "fedlearn" / "commands" / "project").glob("*.py.txt"))
ALGORITHMS = sorted((ROOT / "fedlearn" / "algorithms").glob("*.py"))


def imported_in(tree):
    """Yield the modules of ours that a syntax tree imports."""
    for node in ast.walk(tree):
        named = [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
        named += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        yield from (name for name in named if name.partition(".")[0] in ("fedlearn", "client", "server", "strategies"))


def programs_of(path):
    text = path.read_text(encoding="utf-8")
    is_page = path.suffix == ".md"
    return (
        re.findall(r"^```(?:\{code-block\} )?python\n(?::[^\n]*\n)*(.*?)^```", text, re.M | re.S) if is_page else [text]
    )


@pytest.mark.parametrize("path", [*SHOWN, *TEMPLATES, *ALGORITHMS], ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_shown_or_shipped_as_a_plugin_imports_from_the_page(path):
    found = {name for program in programs_of(path) for name in imported_in(ast.parse(program))}
    siblings = {f"fedlearn.algorithms.{each.stem}" for each in ALGORITHMS} if path in ALGORITHMS else set()
    assert found <= {*PUBLIC, *OTHERS, *siblings}


def test_exceptions_are_those_that_there_are():
    programs = (text for path in (*SHOWN, *TEMPLATES) for text in programs_of(path))
    found = {name for text in programs for name in imported_in(ast.parse(text))}
    assert set(OTHERS) <= found


def test_each_name_loads_from_where_type_checkers_find_it():
    tree = ast.parse(Path(extend.__file__).read_text(encoding="utf-8"))
    typing = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: each.module for each in typing.body for alias in each.names}
    assert seen == extend._MODULE_OF
    assert all(getattr(extend, name) is not None for name in extend.__all__)


def test_the_reference_lists_each_name_once():
    page = (ROOT / "docs" / "reference" / "extend.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    assert sorted(re.findall(r"`(\w+)`", "\n".join(rows))) == sorted(extend.__all__)


def test_a_strategy_imports_no_torch():
    program = "from fedlearn.extend import FedAvg, Step\nimport sys\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_names_that_are_not_there_say_so():
    with pytest.raises(ImportError, match="cannot import name 'SGDD'"):
        from fedlearn.extend import SGDD  # noqa: F401
