"""List the algorithms: lines of each file, oracle, laws, and the engines on which the bytes agree; and a small table.

    python -m tests.algorithms                       # two minutes; --ray adds Flower's engine, 10 seconds an algorithm
    python -m tests.algorithms --only scaffold
    python -m tests.algorithms --digits              # every algorithm on digits, 10 rounds, beside the held hashes
    python -m tests.algorithms --digits --hold       # hold those of this machine

Lines are those of code, without docstrings, imports and empty lines. Hashes are held for one processor and torch.
"""

from __future__ import annotations

import ast
import inspect
import json
import time
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import torch
import typer

import fedlearn
from fedlearn.algorithms.conformance.subjects import subject_of
from fedlearn.commands.check import walked
from fedlearn.engine.embedded.engine import WarmEngine
from fedlearn.models.presets import settings_from
from fedlearn.plugins.tables import STRATEGIES
from tests.oracles.algorithms.federation import Images, NormedImages
from tests.oracles.algorithms.runs import (
    BYTES,
    COMMON,
    NAMES,
    PERSONAL,
    SLICED,
    compare,
    inline_and_killed,
    made,
    settings_of,
    start_of,
)

HELD = Path(__file__).parent / "oracles" / "algorithms" / "digits.json"
DIGITS = {
    "clients": 10, "data.dataset": "digits", "data.partition": "pathological", "data.classes_per_node": 2,
    "data.node_test_share": 0.25, "rounds.total": 10, "rounds.cohort": 0, "training.local_epochs": 1,
    "training.batch_size": 20, "training.lr": 0.05, "training.momentum": 0.0, "evaluation.nodes": 10,
    "evaluation.every": 10, "engine.name": "inline", "gate.max_ratio": 0, "gate.max_share": 1,
}  # fmt: skip


def lines_of(source: str) -> int:
    """Return the number of lines of code: no docstrings, no imports, no empty lines.

    >>> lines_of('import os\\n\\n\\ndef f():\\n    "Return."\\n    return 1')
    2
    """
    tree = ast.parse(source)
    left_out = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    left_out += [n for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)]
    away = {line for node in left_out for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    text = source.splitlines()
    return sum(
        1 for number, line in enumerate(text, 1) if line.strip() and number not in away and line.strip()[0] != "#"
    )


def oracle_of(name: str, folder: Path) -> str:
    """Compare an algorithm with its oracle; return the lines of the oracle, and whether it is equal."""
    cases = [case for case in (*COMMON, *PERSONAL) if case[0] == name]
    if not cases:
        return "-"
    start = start_of(name, folder / "start")
    for place, (_, further, oracle) in enumerate(cases):
        try:
            compare(name, further, oracle, start, folder / f"case-{place}")
        except AssertionError:
            return "DIFFERS"
    module = import_module(f"tests.oracles.algorithms.{'common' if cases[0] in COMMON else 'personal'}")
    shared = {"fedyogi": "server_optimizer", "fedadagrad": "server_optimizer", **dict.fromkeys(SLICED, "sliced")}
    function = getattr(module, shared.get(name, name))
    return f"equal ({lines_of(inspect.getsource(function))} lines)"


def laws_of(name: str) -> str:
    """Return how many of the laws that an algorithm claims hold."""
    verdicts = subject_of(name, walked).verdicts()
    return f"{sum(verdict.holds for verdict in verdicts)} of {len(verdicts)}" if verdicts else "-"


def engines_of(name: str, folder: Path, warm: dict[int, WarmEngine], *, ray: bool) -> str:
    """Return the engines whose model has the same SHA-256 as that of the inline engine, and this one's first digits."""
    inline, resumed = inline_and_killed(folder, name)
    found = {"resumed": resumed.sha256}
    for workers, engine in warm.items():
        out = folder / f"workers-{workers}"
        engine(
            settings_from(
                settings_of(name, {**BYTES, "engine.workers": workers, "out": str(out), "engine.name": "embedded"})
            )
        )
        found[f"{workers} worker{'s' * (workers > 1)}"] = fedlearn.load(out).sha256
    if ray:
        found["ray"] = made(folder / "ray", name, {**BYTES, "engine.name": "ray"}).sha256
    alike = [engine for engine, sha in found.items() if sha == inline.sha256]
    others = [f"NOT {engine}" for engine in found if engine not in alike]
    return f"{inline.sha256[:8]} inline, {', '.join([*alike, *others])}"


def listed(only: list[str], *, ray: bool) -> bool:
    """Print the list; return whether all is as it must be."""
    print(f"{'algorithm':<11} {'lines':>5}  {'oracle':<17} {'laws':<7} same bytes")
    is_right = True
    with WarmEngine() as one, WarmEngine() as two:
        for name in only or NAMES:
            lines = lines_of(inspect.getsource(import_module(STRATEGIES[name].partition(":")[0])))
            with TemporaryDirectory() as folder:
                row = (
                    oracle_of(name, Path(folder)),
                    laws_of(name),
                    engines_of(name, Path(folder), {1: one, 2: two}, ray=ray),
                )
            shown = str(lines) if STRATEGIES[name].startswith("fedlearn.algorithms") else "-"
            print(f"{name:<11} {shown:>5}  {row[0]:<17} {row[1]:<7} {row[2]}", flush=True)
            is_right &= "DIFFERS" not in row[0] and "NOT" not in row[2] and len(set(row[1].split(" of "))) == 1
    return is_right


def machine() -> str:
    """Return what held hashes depend on: torch, and the processor's instructions."""
    return f"torch {torch.__version__.partition('+')[0]}, {torch.backends.cpu.get_cpu_capability()}"


def row_on_digits(name: str) -> dict[str, Any]:
    """Return what an algorithm comes to on digits: scores, CPU seconds, SHA-256."""
    net = NormedImages if name == "fedbn" else Images
    settings = {**DIGITS, "strategy.name": name, "model.name": f"{net.__module__}:{net.__name__}"}
    settings |= {"evaluation.nodes": 0, "data.node_test_share": 0} if name in SLICED else {}
    begin = time.process_time()
    with TemporaryDirectory() as folder:
        run = fedlearn.run(settings=settings, progress=False, out=Path(folder) / "run")
        own = run.history.get("accuracy_nodes_equal")
        return {
            "accuracy": run.summary.get("accuracy"), "own": None if own is None else float(own.iloc[-1]),
            "seconds": time.process_time() - begin, "sha256": run.sha256,
        }  # fmt: skip


def on_digits(only: list[str], *, hold: bool) -> bool:
    """Print the table on digits; return whether all hashes are those that are held."""
    held = json.loads(HELD.read_text()) if HELD.exists() else {}
    is_here = held.get("machine") == machine()
    print(f"{'algorithm':<11} {'accuracy':>8} {'on nodes':>8} {'CPU s':>6}  SHA-256 ({machine()})")
    found, is_right = {}, True
    for name in only or NAMES:
        row = row_on_digits(name)
        found[name] = row["sha256"]
        verdict = (
            "not held for this machine"
            if not is_here or name not in held
            else "as held"
            if held.get(name) == found[name]
            else "DIFFERS"
        )
        is_right &= verdict != "DIFFERS"
        shown = ["-" if row[key] is None else f"{row[key]:.3f}" for key in ("accuracy", "own")]
        print(
            f"{name:<11} {shown[0]:>8} {shown[1]:>8} {row['seconds']:>6.2f}  {found[name][:16]} {verdict}", flush=True
        )
    if hold:
        HELD.write_text(json.dumps({**held, **found, "machine": machine()}, indent=1) + "\n")
    return is_right or hold


def main(
    only: Annotated[list[str] | None, typer.Option(help="Only these algorithms.")] = None,
    ray: Annotated[bool, typer.Option("--ray", help="Also on Flower's Simulation Runtime.")] = False,
    digits: Annotated[bool, typer.Option("--digits", help="The table on digits.")] = False,
    hold: Annotated[bool, typer.Option("--hold", help="Hold the hashes of this table.")] = False,
) -> None:
    """Print one of the two tables; exit code 1 if something is not as it must be."""
    is_right = on_digits(only or [], hold=hold) if digits else listed(only or [], ray=ray)
    raise typer.Exit(0 if is_right else 1)


if __name__ == "__main__":
    typer.run(main)
