"""PFLlib's folders: each client keeps its own files, and a file of others runs no code."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

from fedlearn.core.errors import DataNotFound, UsageError
from fedlearn.data import load_dataset

RNG = np.random.default_rng(3)


def examples(count: int, **changes) -> dict[str, object]:
    return {"x": RNG.random((count, 3, 5, 4)).astype(np.float32), "y": RNG.integers(0, 4, count), **changes}


def written(folder, sizes=(4, 6, 5), part="train", packed=True):
    (folder / part).mkdir()
    held = [examples(count) for count in sizes]
    for client, each in enumerate(held):
        np.savez_compressed(folder / part / f"{client}.npz", **({"data": each} if packed else each))
    return held


@pytest.mark.parametrize("packed", [True, False])
def test_each_client_is_a_group_with_its_own_test_examples(tmp_path, packed):
    held, tests = written(tmp_path, [2] * 11, packed=packed), written(tmp_path, [1] * 11, "test", packed)
    found = load_dataset(str(tmp_path), "")
    assert (found.spec.shape, found.spec.groups, found.num_classes) == ((5, 4, 3), 11, 4)
    for part, files in ((found.train, held), (found.test, tests)):
        for client, each in enumerate(files):
            rows = part.at(np.flatnonzero(part.groups == client))
            assert np.array_equal(np.moveaxis(rows.inputs, -1, 1), each["x"])
            assert np.array_equal(rows.targets, each["y"])
    assert "clients" in found.counted


class Runs:
    def __reduce__(self):
        return os.mkdir, ("ran",)


def test_pickle_of_anything_but_arrays_is_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    np.savez(tmp_path / "train" / "1.npz", data=examples(3, y=Runs()))
    with pytest.raises(UsageError, match=re.escape(f"1.npz cannot be read: UnpicklingError: it holds {os.name}.mkdir")):
        load_dataset(str(tmp_path), "")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (examples(3, y=np.zeros(4)), "arrays x and y of one length"),
        ({"x": np.zeros((3, 2))}, "it must hold arrays x and y"),
        (examples(3, x=np.zeros((3, 5, 4), np.float32)), r"x has shape \(3, 5, 4\), and that of 0\.npz"),
        (np.zeros(3), "it must hold arrays x and y"),
    ],
)
def test_wrong_file_is_named(tmp_path, wrong, said):
    written(tmp_path)
    np.savez(tmp_path / "train" / "2.npz", data=wrong)
    with pytest.raises(UsageError, match=rf"2\.npz.*{said}"):
        load_dataset(str(tmp_path), "")


def test_test_file_of_no_client_is_named(tmp_path):
    written(tmp_path, [2])
    written(tmp_path, [1, 1], "test")
    with pytest.raises(UsageError, match=r"test/1\.npz: there is no such file in train"):
        load_dataset(str(tmp_path), "")
    (tmp_path / "train" / "0.npz").rename(tmp_path / "train" / "all.npz")
    with pytest.raises(DataNotFound, match=r"no train/0\.npz"):
        load_dataset(str(tmp_path), "")
