"""The final model does not depend on the engine or the number of workers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.end_to_end.conftest import some_slow
from tests.unit.data.conftest import CifarFiles

VARIANTS = {
    "plain": {},
    "one-node": {"rounds.cohort": 1},
    "even-cohort": {"rounds.cohort": 6},
    "all-nodes": {"rounds.cohort": 0},
    "uneven-data": {"data.partition": "dirichlet", "data.alpha": 0.3},
    "uniform-weights": {"strategy.weighting": "uniform"},
    "change-is-sent": {"compression.send": "update"},
    "entries-dropped": {"compression.codec": "drop"},
    "entries-of-the-change-dropped": {"compression.codec": "drop", "compression.send": "update"},
    "tensors-dropped": {
        "compression.codec": "drop", "compression.granularity": "tensor", "compression.keep_ratio": 0.5,
    },
    "chain": {"compression.codec": "drop:0.3,rotate,quantize:4,entropy"},
    "change-at-one-bit": {"compression.codec": "eden", "compression.send": "update"},
    "residual-kept": {
        "compression.codec": "residual,top-k:0.05,quantize:4", "compression.send": "update", "rounds.cohort": 0,
    },
    "spatial-decoder": {
        "compression.codec": "drop", "compression.send": "update", "strategy.options.decoder": "spatial",
    },
    "state-shrunk": {"compression.downlink": "rotate,quantize:8", "compression.codec": "drop"},
    "median": {"strategy.name": "median"},
    "median-of-dropped": {"strategy.name": "median", "compression.codec": "drop", "compression.keep_ratio": 0.5},
    "adam": {"strategy.name": "fedadam"},
    "flowers-own-strategy": {"strategy.name": "flwr.serverapp.strategy:FedAvg"},
    "evaluated-by-nodes": {"evaluation.where": "nodes"},
    "head-is-sent": {"training.send": "fc*", "training.personal": "fc3", "compression.codec": "drop:0.2"},
    "head-of-a-stack-is-sent": {"training.send": "fc*", "training.stack": 3, "rounds.cohort": 7},
    "stacked": {"training.stack": 3, "rounds.cohort": 7, "training.batch_size": 20, "data.partition": "dirichlet"},
}  # fmt: skip
QUICK = ("flowers-own-strategy", "stacked")


@pytest.mark.parametrize("settings", some_slow(VARIANTS, QUICK, long={*VARIANTS} - {*QUICK}))
def test_every_engine_makes_the_same_model(execute, undisturbed, settings):
    reference = undisturbed(settings)
    for workers in (1, 2, 3) if settings in [VARIANTS[name] for name in QUICK] else (3,):
        run = execute({**settings, "engine.workers": workers})
        assert run.sha == reference.sha
        for name in ("accuracy", "loss", "rounds", "bytes_up", "bytes_down", "bytes_protocol"):
            assert run.summary[name] == reference.summary[name], name


@pytest.mark.parametrize("strategy", ["fedavg", "flwr.serverapp.strategy:FedAvg"])
def test_a_state_that_is_shrunk_for_its_way_takes_fewer_bytes_and_still_teaches(undisturbed, strategy):
    settings = {
        "model.name": "linear", "rounds.total": 4, "training.local_epochs": 5, "compression.send": "update",
        "strategy.name": strategy,
    }  # fmt: skip
    whole = undisturbed(settings).summary
    shrunk = undisturbed({**settings, "compression.downlink": "rotate,quantize:8"}).summary
    assert whole["bytes_down"] / shrunk["bytes_down"] > 3.8
    assert shrunk["bytes_up"] == whole["bytes_up"]
    assert shrunk["accuracy"] > whole["accuracy"] - 0.1


def test_another_seed_makes_another_model(execute, undisturbed):
    assert undisturbed().sha != execute({"seed": 2}).sha


def test_every_engine_logs_the_same_events_but_for_their_order(execute, undisturbed):
    def told(run):
        return sorted(
            (e["event"], e.get("round", 0), e.get("node", 0), e.get("bytes", 0)) for e in run.events
        )  # fmt: skip

    assert told(execute()) == told(undisturbed())


CIFAR10 = {
    "data.dataset": "cifar10", "clients": 500, "rounds.cohort": 3, "rounds.total": 1, "compression.codec": "drop",
}  # fmt: skip


def test_images_of_cifar10_make_the_same_model_on_every_engine(execute, tmp_path):
    for part, number in (("train", 500), ("test", 20)):
        CifarFiles().write(tmp_path / "cifar10" / f"{part}.parquet", [each % 10 for each in range(number)])
    settings = {**CIFAR10, "data.dir": str(tmp_path)}
    assert execute(settings).sha == execute(settings, engine="inline").sha


@pytest.mark.long
def test_cifar10_makes_the_same_model_on_every_engine(execute, undisturbed):
    data = os.environ.get("FEDLEARN_DATA", "")
    if not (Path(data) / "cifar10" / "train.parquet").exists():
        pytest.skip("FEDLEARN_DATA does not hold cifar10/train.parquet")
    assert execute(CIFAR10).sha == undisturbed(CIFAR10).sha
