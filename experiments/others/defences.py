"""Compare our defences and attacks with byzfl's on random changes, and name what differs.

    python -m venv others && others/bin/pip install byzfl==0.0.11
    python -m experiments.others.defences --python others/bin/python

Each input is a matrix of changes of 5 to 24 nodes, of which up to a quarter lie a hundred times as far as the others.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedlearn.attacks import load_attack
from fedlearn.config.tables.reports import StrategySettings
from fedlearn.core.seeding import rng_for
from fedlearn.core.state import Entries, Sends, layout_of
from strategies import load_strategy
from strategies.base import Turn
from strategies.collected import Collected

Float64 = NDArray[np.float64]
TOLERANCE = 1e-6  # of the largest entry of a matrix's honest rows


def defended(name: str, rows: Float64, **options: object) -> Float64:
    """Return the change that a defence makes of the changes of the nodes, shape (entries,)."""
    strategy = load_strategy(StrategySettings.model_validate({"name": name, "options": options}))
    state = {"x": np.zeros(rows.shape[1])}
    total = Collected(layout_of(state), [(1.0, {"x": Entries(row)}) for row in rows])
    return np.asarray(strategy.next_state(Turn(state, total, Sends.UPDATE)).state["x"], np.float64)


def lie(name: str, rows: Float64, **options: float) -> Float64:
    """Return the lie of one attacker that knows the changes of the honest nodes."""
    attack = load_attack(name, json.dumps(options))
    (only,) = attack.lies(rows, attackers=1, rng=rng_for(1, purpose="attack"))
    return np.asarray(only, np.float64)


def as_theirs(rows: Float64) -> float:
    """Return the z that is byzfl's tau of 1.5: its deviations have ddof 1, ours ddof 0."""
    return 1.5 * math.sqrt(len(rows) / (len(rows) - 1))


OURS: Mapping[str, Callable[[Float64, int], Float64]] = {
    "median": lambda rows, f: defended("median", rows),
    "trimmed-mean": lambda rows, f: defended("trimmed-mean", rows, trim=(f + 0.5) / len(rows)),
    "krum": lambda rows, f: defended("krum", rows, attackers=f),
    "multi-krum": lambda rows, f: defended("multi-krum", rows, attackers=f),
    "geometric-median": lambda rows, f: defended("geometric-median", rows, attackers=f),
    "centered-clipping": lambda rows, f: defended("centered-clipping", rows, radius=1.0, iterations=3, attackers=f),
    "mixing, median": lambda rows, f: defended("median", rows, mixing=True, attackers=f),
    "mixing, geometric-median": lambda rows, f: defended("geometric-median", rows, mixing=True, attackers=f),
    "ipm": lambda rows, f: lie("ipm", rows, tau=2.0),
    "sign-flip": lambda rows, f: lie("ipm", rows, tau=1.0),
    "alie": lambda rows, f: lie("alie", rows, z=1.5),
    # The same rules as byzfl understands them:
    "krum, one neighbor more": lambda rows, f: defended("krum", rows, attackers=f - 1),
    "multi-krum, one neighbor more": lambda rows, f: defended(
        "multi-krum", rows, attackers=f - 1, chosen=len(rows) - f
    ),
    "geometric-median, three steps": lambda rows, f: defended("geometric-median", rows, attackers=f),
    "alie, ddof 1 and added": lambda rows, f: 2 * rows.mean(axis=0) - lie("alie", rows, z=as_theirs(rows)),
}


def inputs(count: int) -> dict[str, Float64]:
    """Return matrices by name: number, and how many of the first rows are far away."""
    made = {}
    for number in range(count):
        rng = np.random.default_rng(number)
        nodes = int(rng.integers(5, 25))
        f = int(rng.integers(1, (nodes - 1) // 4 + 1))
        rows = rng.normal(size=(nodes, int(rng.integers(1, 40)))) * 10.0 ** rng.integers(-3, 3)
        rows[:f] *= 100
        made[f"{number}/{f}"] = rows
    return made


def main() -> None:
    """Print, for each rule, in how many inputs both give the same, and the largest difference."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.others.defences", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--python", type=Path, required=True, help="of an environment that has byzfl 0.0.11")
    parser.add_argument("--inputs", type=int, default=1000)
    options = parser.parse_args()
    made = inputs(options.inputs)
    with tempfile.TemporaryDirectory() as folder:
        np.savez(given := Path(folder, "inputs.npz"), **made)  # type: ignore[arg-type]
        script = Path(__file__).with_name("defences_of_byzfl.py")
        subprocess.run([options.python, script, given, answered := Path(folder, "answers.npz")], check=True)
        theirs = dict(np.load(answered))
    print("| rule | equal | of | largest difference |\n|---|---|---|---|")
    for rule, ours in OURS.items():
        name = rule if any(key.endswith(f"|{rule}") for key in theirs) else rule.partition(",")[0]
        gaps = []
        for key, rows in made.items():
            f = int(key.partition("/")[2])
            gaps.append(np.abs(ours(rows, f) - theirs[f"{key}|{name}"]).max() / np.abs(rows[f:]).max())
        equal = sum(gap <= TOLERANCE for gap in gaps)
        print(f"| {rule} | {equal} | {len(gaps)} | {max(gaps):.1e} |", flush=True)


if __name__ == "__main__":
    main()
