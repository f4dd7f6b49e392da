"""One record more moves no other record between training and test, by whichever file private data come."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedlearn.config import config_from
from fedlearn.models.loaded import dataset_of

RECORDS = 200
SETTINGS = {
    "clients": 4, "model.name": "mlp", "privacy.protects": "records", "training.learner": "dp-sgd",
    "privacy.epsilon": 1.0, "privacy.delta": 1e-5, "privacy.records": 40, "privacy.noise": "seeded",
}  # fmt: skip  # other noise wants declared data: tests/adversary/test_doors.py


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal((count, 3)).astype(np.float32)


def separated(ending: str, between: str) -> Callable[[Path, int], str]:
    def write(folder: Path, count: int) -> str:
        cells = [[*map(str, row), "ny"[place % 2]] for place, row in enumerate(rows(count).tolist())]
        lines = [between.join(line) for line in (["a", "b", "c", "y"], *cells)]
        (folder / f"t{ending}").write_text("\n".join([*lines, ""]))
        return f"t{ending}"

    return write


def npz(folder: Path, count: int) -> str:
    np.savez(folder / "t.npz", X=rows(count), y=np.arange(count) % 2)
    return "t.npz"


def leaf(folder: Path, count: int) -> str:
    user = {"x": rows(count).tolist(), "y": (np.arange(count) % 2).tolist()}
    (folder / "t.json").write_text(json.dumps({"users": ["ann"], "user_data": {"ann": user}}))
    return "t.json"


def pictures(folder: Path, count: int) -> str:
    for place in range(count):
        path = folder / "t" / "ab"[place % 2] / f"{place:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.random.default_rng(place).integers(0, 255, (4, 4, 3)).astype(np.uint8)).save(path)
    return "t"


DOORS = {"CSV": separated(".csv", ","), "TSV": separated(".tsv", "\t"), "npz": npz, "LEAF": leaf, "pictures": pictures}


@pytest.mark.parametrize("protects", ["records", "nodes"])
@pytest.mark.parametrize("door", DOORS)
def test_one_record_more_moves_no_other(tmp_path, monkeypatch, door, protects):
    parts = []
    for count in (RECORDS, RECORDS + 1):
        folder = tmp_path / str(count)
        folder.mkdir()
        monkeypatch.chdir(folder)
        options = {"data.options": {"target": "y"}} if door in ("CSV", "TSV") else {}
        more = {"privacy.protects": protects, "training.learner": "dp-sgd" if protects == "records" else ""}
        found = dataset_of(config_from({**SETTINGS, **options, **more, "data.dataset": DOORS[door](folder, count)}))
        parts.append([{row.tobytes() for row in part.inputs} for part in (found.train, found.test)])
    (train, test), (more_train, more_test) = parts
    assert train <= more_train and test <= more_test and 20 < len(test) < 60
    assert len(more_train | more_test) == RECORDS + 1
