"""Runs on a GPU: the same bytes by seed, engine and workers, near those of a processor, with every kind of training."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fedlearn

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU on this machine"),
]

SMALL = {"dataset": "digits", "clients": 4, "rounds": 2, "batch_size": 60, "local_epochs": 1, "lr": 0.02}
STRATEGIES = [
    "fedavg", "scaffold", "fednova", "feddyn", "moon", "fedadam", "fedsam", "fedlc", "fedper", "fedrep", "fedbabu",
    "ditto", "perfedavg", "fedala", "qfedavg", "median", "krum",
]  # fmt: skip
OTHERS = {
    "bfloat16": {"training.precision": "bfloat16"},
    "augmented": {"data.augment": True},
    "adam": {"training.optimizer": "adam"},
    "clipped": {"training.clip_norm": 1.0},
    "coded": {"compression.send": "update", "compression.codec": "eden"},
    "dropped": {"compression.codec": "drop:0.5"},
    "nodes": {"privacy.protects": "nodes", "privacy.epsilon": 8.0, "privacy.delta": 1e-3},
    "records": {"privacy.protects": "records", "privacy.epsilon": 8.0, "privacy.delta": 1e-3},
}


@pytest.fixture
def trained(tmp_path):
    def run(name="run", *, device="cuda", engine="inline", settings=None, **keywords):
        how = {"engine.device": device, "engine.name": engine, "training.momentum": 0.0, **(settings or {})}
        return fedlearn.run(**{**SMALL, **keywords}, settings=how, progress=False, out=tmp_path / name)

    return run


def test_the_same_seed_makes_the_same_bytes_on_every_engine(trained):
    first, again = trained("first"), trained("again")
    workers = [trained(f"{count}", engine="embedded", workers=count) for count in (1, 2)]
    assert len({run.sha256 for run in (first, again, *workers)}) == 1


def test_a_stack_and_a_processor_make_the_same_model_up_to_rounding(trained):
    alone, stacked = (trained(f"stack-{count}", settings={"training.stack": count}) for count in (1, 4))
    processor = trained("processor", device="cpu")
    assert alone.sha256 != stacked.sha256
    for name, array in alone.state.items():
        np.testing.assert_allclose(stacked.state[name], array, atol=2e-3)
        np.testing.assert_allclose(processor.state[name], array, atol=2e-3)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_algorithm_trains(trained, strategy):
    run = trained(strategy=strategy, clients=8)
    assert run.summary["status"] == "completed"
    assert all(np.isfinite(array).all() for array in run.state.values())


@pytest.mark.parametrize("kind", OTHERS)
def test_every_kind_of_training_is_near_that_of_a_processor(trained, kind):
    how = {"model": "linear", "settings": OTHERS[kind]}
    on_gpu, processor = (trained(device, device=device, **how) for device in ("cuda", "cpu"))
    for name, array in processor.state.items():
        np.testing.assert_allclose(on_gpu.state[name], array, atol=0.05 if kind == "bfloat16" else 2e-3)


@pytest.mark.parametrize("model", ["linear", "mlp", "cnn", "cnn-large", "resnet18"])
def test_every_model_of_pictures_trains(trained, model):
    assert trained(model=model, rounds=1, clients=2).summary["status"] == "completed"


@pytest.mark.parametrize("model", ["lstm", "transformer"])
def test_every_model_of_texts_trains(trained, model):
    run = trained(dataset="topics", model=model, rounds=1, clients=8, cohort=2)
    assert run.summary["status"] == "completed"
