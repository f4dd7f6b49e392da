"""Checkpoints of runs of each feature of a round, and the SHA-256 to which each resumes.

    python -m tests.checkpoints tests/end_to_end/checkpoints      # written by the commit before features had rooms

Each is a run of `ROWS` that was paused after one or two of its four rounds, packed. A later commit must resume each to
the same bytes (`tests/end_to_end/test_checkpoints.py`). They are small: a linear model of ten columns, or of digits.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from fedlearn.engine import ENGINES
from fedlearn.models.presets import settings_from

COMMON: Mapping[str, Any] = {
    "data.dataset": "diabetes", "model.name": "linear", "clients": 8, "rounds.cohort": 5, "rounds.total": 4,
    "stop.after": 2, "training.batch_size": 16, "training.local_epochs": 1, "engine.name": "inline",
    "rounds.backoff": 0.0,
}  # fmt: skip
UPDATE = {"compression.send": "update"}
NODES = {"privacy.protects": "nodes", "privacy.delta": 1e-3, "privacy.epsilon": 80.0}
SUMS = {"secure.sums": "masked", "secure.dropouts": 0.0, "clients": 8, "rounds.cohort": 8}
ROWS: Mapping[str, Mapping[str, Any]] = {
    "root training": {"strategy.name": "fltrust", **UPDATE},
    "measures on nodes": {"evaluation.nodes": 3, "evaluation.beside": ["alone", "tuned"]},
    "local baseline": {"training.baseline": "local"},
    "backdoor": {"attack.name": "backdoor", "attack.attackers": 0.3, "data.dataset": "digits", "stop.after": 1},
    "alie": {"attack.name": "alie", "attack.attackers": 0.3, **UPDATE},
    "stale": {"attack.name": "stale", "attack.attackers": 0.3, **UPDATE},
    "anchor": {"compression.downlink": "anchor:3,eden", **UPDATE},
    "moving anchor": {"compression.downlink": "ef21,top-k:0.2", "rounds.cohort": 0, **UPDATE},
    "anchor in flight": {
        "compression.downlink": "anchor:3,eden", "rounds.schedule": "buffered", "devices.name": "phones",
        "rounds.schedule_options": {"buffer_size": 3}, **UPDATE,
    },
    "nodes": NODES,
    "nodes, adaptive clip": {**NODES, "privacy.clip_quantile": 0.5},
    "nodes, correlated": {**NODES, "rounds.cohort": 2, "privacy.separation": 2},
    "nodes, local": {**NODES, "privacy.trust": "local"},
    "nodes, distributed": {**NODES, **SUMS, "privacy.trust": "distributed"},
    "masked sums": SUMS,
    "masked groups": {
        **SUMS, "clients": 12, "rounds.cohort": 12, "secure.group_size": 4, "compression.codec": "drop:0.5",
    },
}  # fmt: skip


def run(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Begin a run, or go on with it; return what its summary says."""
    ENGINES.load("inline")(settings_from({**COMMON, **settings, "out": str(folder)}))
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return summary


def main(
    out: Annotated[Path, typer.Argument(help="Where to write them.")],
    only: Annotated[list[str] | None, typer.Option(help="Rows with this in the name; repeatable.")] = None,
) -> None:
    """Write a checkpoint of each row, and the SHA-256 to which it resumes."""
    out.mkdir(exist_ok=True)
    expected: dict[str, str] = {}
    for name, settings in ROWS.items():
        if only and not any(part in name for part in only):
            continue
        with TemporaryDirectory() as place:
            folder = Path(place) / "run"
            run(settings, folder)
            with tarfile.open(out / f"{name}.tar.xz", "w:xz") as packed:
                packed.add(folder, "run")
            expected[name] = run({**settings, "stop.after": 0}, folder)["model_sha256"]
        size = (out / f"{name}.tar.xz").stat().st_size
        print(f"{name:<24}{size:>8}  {expected[name]}", flush=True)
    (out / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
