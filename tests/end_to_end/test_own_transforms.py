"""Runs with own transforms and augmentation: the same bytes however they run, in training and in predictions."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torchvision.transforms import v2

import fedlearn
from fedlearn.core.errors import UsageError
from fedlearn.data import load_dataset

SMALLER = v2.Compose([v2.Resize(8), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.25] * 3)])
RUN = {
    "clients": 9, "cohort": 2, "data": "digits", "model": "linear", "rounds": 1, "batch_size": 50, "lr": 0.1,
    "progress": False,
}  # fmt: skip


def turned(example):
    return torch.roll(example, random.randint(-1, 1) + np.random.randint(2) + int(torch.randint(2, ())), dims=-1)


SETTINGS = {"data.transform": SMALLER, "data.augment": turned}


@pytest.mark.long
def test_predictions_are_of_transformed_rows_and_nothing_is_augmented(tmp_path):
    run = fedlearn.run(**RUN, settings=SETTINGS, engine="inline", out=str(tmp_path / "run"))
    test = load_dataset("digits", "").test
    with torch.no_grad():
        inputs = torch.stack([SMALLER(each) for each in torch.from_numpy(np.array(test.inputs)).permute(0, 3, 1, 2)])
        by_hand = run.model()(inputs).argmax(1).numpy()
    assert np.array_equal(run.predict(test.inputs), by_hand)
    assert run.summary["accuracy"] == pytest.approx(np.mean(by_hand == test.targets))


@pytest.mark.long
def test_workers_engines_and_stacks_change_no_byte_and_a_changed_file_is_seen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = [
        fedlearn.run(**RUN, settings={**SETTINGS, **more}, out=str(tmp_path / f"run{place}"))
        for place, more in enumerate(({"engine.workers": 1}, {"engine.workers": 2}, {"engine.name": "inline"}))
    ]
    assert len({run.sha256 for run in runs}) == 1
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "looks.py").write_text("def darker(example):\n    return example // 2\n")
    named = fedlearn.run(**RUN, settings={"data.transform": "looks:darker"}, out=str(tmp_path / "named"))
    (tmp_path / "looks.py").write_text("def darker(example):\n    return example // 3\n")
    with pytest.raises(UsageError, match=r"looks\.py: it has changed since the run"):
        fedlearn.run(resume=named, rounds=2, progress=False)


@pytest.mark.long
def test_private_run_has_them_too_with_noise_of_the_system(tmp_path):
    private = {"privacy.protects": "records", "privacy.epsilon": 8.0, "privacy.delta": 1e-5, "privacy.records": 300}
    settings = {**SETTINGS, **private, "privacy.noise": "secure"}
    run = fedlearn.run(**RUN, settings=settings, engine="inline", out=str(tmp_path / "run"))
    assert run.summary["epsilon"] <= 8
