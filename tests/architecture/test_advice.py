"""What an error advises can be done: its flags, settings and keywords exist, and the way it names leads on."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from PIL import Image
from torch import nn

import fedlearn
import fedlearn.data
from fedlearn.api.result import Run as Result
from fedlearn.cli import app
from fedlearn.config.names import setting_names
from fedlearn.core.errors import UsageError
from fedlearn.data import from_any, from_arrays, from_hf, from_torch
from fedlearn.data.sources.image_folder import from_folder
from fedlearn.data.sources.named_columns import from_table
from fedlearn.privacy.accounts.calibration import noise_multiplier_for

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    path for package in ("fedlearn", "server", "client", "strategies") for path in (ROOT / package).rglob("*.py")
]
OF_OTHER_PROGRAMS = {
    "--help",
    "--head",
    "--superexec-auth-secret-file",
    "--only-our-app",
}  # Ray's; started by ours alone
FUNCTIONS = {
    "fedlearn.run": fedlearn.run, "run.stop": Result.stop, "run.model": Result.model,
    "run.inputs": Result.inputs, "from_arrays": from_arrays, "from_torch": from_torch, "from_hf": from_hf,
}  # fmt: skip


@cache
def texts() -> list[tuple[Path, str]]:
    """Return the texts of the sources that are sentences, without docstrings; parts of an f-string one by one."""
    return list(_texts())


def _texts() -> Iterator[tuple[Path, str]]:
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
            if is_text and " " in node.value.strip() and not node.value.startswith("#!"):
                yield path, node.value


def flags_of(command: Any) -> set[str]:
    own = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    return own.union(*map(flags_of, getattr(command, "commands", {}).values()))


def test_a_flag_that_a_text_names_exists():
    known = flags_of(typer.main.get_command(app)) | OF_OTHER_PROGRAMS
    named = [(flag, path.name) for path, text in texts() for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)]
    assert len(named) > 100
    assert [each for each in named if each[0] not in known] == []


def test_a_setting_that_a_text_names_exists():
    known = set(setting_names())
    tables = {name.partition(".")[0] for name in known if "." in name} - {"client"}
    words = re.compile(rf"(?<![\w./])({'|'.join(sorted(tables))})\.(?!csv|json)([a-z_]+)\b(?![\w(/])")
    named = [(".".join(found), path.name) for path, text in texts() for found in words.findall(text)]
    assert len(named) > 200
    assert [each for each in named if each[0] not in known] == []


def test_a_keyword_of_a_call_that_a_text_names_exists():
    calls = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, FUNCTIONS))})\(([^()]*)")
    named = [(*found, path.name) for path, text in texts() for found in calls.findall(text)]
    assert len(named) > 5
    for function, arguments, _ in named:
        known = inspect.signature(FUNCTIONS[function]).parameters
        assert {word for word in re.findall(r"\b([a-z_]+)=", arguments) if word not in known} == set(), function


RNG = np.random.default_rng(3)
LABELS = np.arange(12) % 3
FIRST = RNG.random((12, 3, 8, 8)).astype(np.float32)
TENSORS = torch.utils.data.TensorDataset(
    torch.from_numpy(RNG.random((12, 16, 16, 3)).astype(np.float32)), torch.from_numpy(LABELS)
)


def write(path: Path, text: str, encoding: str = "utf-8") -> str:
    path.write_text(text, encoding=encoding)
    return str(path)


def csv(folder: Path, rows: list[str], encoding: str = "utf-8") -> str:
    return write(folder / "rows.csv", "\n".join([rows[0], *rows[1:] * 4]) + "\n", encoding)


def pictures(folder: Path) -> str:
    for place, side in enumerate([8, 9, 8, 8, 8, 8, 8, 8]):
        (folder / "p" / f"c{place % 2}").mkdir(parents=True, exist_ok=True)
        Image.new("L", (side, 8), place * 20).save(folder / "p" / f"c{place % 2}" / f"{place}.png")
    return str(folder / "p")


TABS = ["a\tb\ty", "1,5\t2\t0", "3\t4\t1"]
Way = Callable[[Path], Any]
FOLLOWED: dict[str, tuple[Way, Way]] = {
    "say channels='first' or 'last'": (
        lambda _: from_arrays(FIRST, LABELS), lambda _: from_arrays(FIRST, LABELS, channels="first")),
    "say from_torch(data, channels='last')": (
        lambda _: from_any(TENSORS), lambda _: from_torch(TENSORS, channels="last")),
    "give (data.map(...), 'COLUMN') in place of with_transform": (
        lambda _: from_any(hf(with_transform=True)), lambda _: from_any((hf(with_transform=False), "label"))),
    "from_hf(data, inputs=[...], target=": (
        lambda _: from_any(columns()), lambda _: from_hf(columns(), inputs=["a"], target="label")),
    "numbers as floats, X.astype('float32')": (
        lambda _: from_arrays(RNG.integers(0, 9, (12, 4, 4)), LABELS),
        lambda _: from_arrays(RNG.integers(0, 9, (12, 4, 4)).astype("float32"), LABELS)),
    "X.astype('int32'), or say vocabulary=": (
        lambda _: from_arrays(RNG.integers(0, 9, (12, 4)).astype(np.int16), LABELS),
        lambda _: from_arrays(RNG.integers(0, 9, (12, 4)).astype(np.int16), LABELS, vocabulary=9)),
    "give the classes, y.argmax(1)": (
        lambda _: from_arrays(FIRST, np.eye(3)[LABELS], channels="first"),
        lambda _: from_arrays(FIRST, np.eye(3)[LABELS].argmax(1), channels="first")),
    "give their number by classes=": (
        lambda _: from_arrays(FIRST, LABELS * 0, channels="first"),
        lambda _: from_arrays(FIRST, LABELS * 0, channels="first", classes=3)),
    "say data.options.delimiter=';'": (
        lambda folder: from_table(csv(folder, ["a;b;y", "1;2;0", "3;4;1"]), target="y"),
        lambda folder: from_table(csv(folder, ["a;b;y", "1;2;0", "3;4;1"]), target="y", delimiter=";")),
    "say data.options.decimal=','": (
        lambda folder: from_table(csv(folder, TABS), target="y", delimiter="\t"),
        lambda folder: from_table(csv(folder, TABS), target="y", delimiter="\t", decimal=",")),
    "data.options.encoding=cp1252": (
        lambda folder: from_table(csv(folder, ["a,y", "1,schön", "2,gut"], "cp1252"), target="y"),
        lambda folder: from_table(csv(folder, ["a,y", "1,schön", "2,gut"], "cp1252"), target="y", encoding="cp1252")),
    "give size=[HEIGHT, WIDTH] to scale all of them": (
        lambda folder: from_folder(pictures(folder)), lambda folder: from_folder(pictures(folder), size=[8, 8])),
    "give one of single examples": (
        lambda _: from_any(torch.utils.data.DataLoader(TENSORS, batch_size=None)),
        lambda _: from_torch(torch.utils.data.DataLoader(TENSORS, batch_size=2), channels="last")),
    "let some require gradients": (
        lambda folder: a_run(folder, frozen()), lambda folder: a_run(folder, nn.Linear(4, 3))),
    "take accountant='pld'": (
        lambda _: noise_multiplier_for(1e-12, delta=1e-300, rounds=1, accountant="rdp"),
        lambda _: noise_multiplier_for(1e-12, delta=1e-300, rounds=1, accountant="pld")),
}  # fmt: skip


def hf(*, with_transform: bool) -> Any:
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"x": RNG.random((12, 4)).tolist(), "label": LABELS.tolist()})
    return data.with_transform(lambda rows: {"y": rows["x"]}) if with_transform else data


def columns() -> Any:
    datasets = pytest.importorskip("datasets")
    return datasets.Dataset.from_dict({"text": ["words"] * 12, "a": [[1.0, 2.0]] * 12, "label": LABELS.tolist()})


def frozen() -> nn.Module:
    return nn.Linear(4, 3).requires_grad_(False)


def a_run(folder: Path, module: nn.Module) -> Any:
    data = from_arrays(RNG.random((12, 4)).astype(np.float32), LABELS)
    return fedlearn.run(
        data=data, model=module, clients=2, rounds=1, engine="inline", out=folder / "run", progress=False
    )


@pytest.mark.parametrize("advice", FOLLOWED)
def test_what_an_error_advises_leads_on(advice, tmp_path):
    fails, follow = FOLLOWED[advice]
    with pytest.raises((UsageError, ValueError)) as caught:
        fails(tmp_path)
    assert advice in str(caught.value)
    assert follow(tmp_path) is not None
