"""Trees and privacy are libraries of their own: no Flower, no torch, and what their READMEs say runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNWANTED = {"flwr", "torch", "ray", "datasets", "flwr_datasets", "matplotlib"}


def python(program):
    """Run a program in a process of its own; return its lines but the last, and all modules that it has loaded."""
    program += "\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    *lines, modules = done.stdout.splitlines()
    return lines, set(modules.split())


def example_of(package):
    """Return the first Python example of a package's README."""
    text = (ROOT / "fedlearn" / package / "README.md").read_text(encoding="utf-8")
    return re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]


@pytest.mark.parametrize("package", ["private_trees", "privacy"])
def test_readme_example_runs_alone_and_prints_what_was_spent(package):
    lines, modules = python(example_of(package))
    assert any(re.match(r"epsilon = (1|0\.4) \(add or remove one record; unit: record\)$", line) for line in lines)
    assert not modules & UNWANTED


def test_readme_example_of_the_trees_has_ten_lines_or_so():
    code = [line for line in example_of("private_trees").splitlines() if line]
    assert 8 <= len(code) <= 12


def test_import_alone_loads_neither_flower_nor_torch_nor_opendp():
    _, modules = python("import fedlearn.privacy\nfrom fedlearn.private_trees import *")
    assert {"fedlearn.privacy", "fedlearn.private_trees", "fedlearn.private_trees.estimators"} <= modules
    assert not modules & (UNWANTED | {"opendp"})
