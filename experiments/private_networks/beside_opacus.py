"""The accuracy of DP-SGD by Opacus, for the nodes, the noise and the steps of a run of ours: `records` calls it."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedlearn.config.load import config_from
from fedlearn.data import partition_table
from fedlearn.engine.prepare import prepared
from fedlearn.models.loaded import dataset_of
from fedlearn.models.torch.inputs import inputs_of
from fedlearn.privacy.record_costs import RecordPlan

ROOT = Path(__file__).parents[2]


def opacus_accuracy(settings: Mapping[str, object], python: str) -> float:
    """Return accuracy on the test set after the last round; `python` is of an environment with Opacus."""
    config = prepared(config_from(dict(settings)))
    dataset, plan, training = dataset_of(config), RecordPlan.of(config), config.training
    shares = partition_table(dataset, config.data, num_partitions=config.clients, seed=config.seed, by_record=True)
    owner = np.full(len(dataset.train), -1)
    for node in range(config.clients):
        owner[shares.indices(node)] = node
    inputs = inputs_of(dataset.spec)
    flags = {
        "model": config.model.name, "rounds": config.rounds.total, "steps": plan.steps, "seed": config.seed,
        "rate": plan.sampling_rate, "expected": plan.expected, "clip": config.privacy.clip,
        "noise-multiplier": plan.mechanism.noise_multiplier, "lr": training.lr, "momentum": training.momentum,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        np.savez(
            data, train=inputs(dataset.train.inputs).numpy(), targets=dataset.train.labels, owner=owner,
            test=inputs(dataset.test.inputs).numpy(), test_targets=dataset.test.labels,
        )  # fmt: skip
        command = [python, "-m", "experiments.private_networks.opacus_fedavg", str(data)]
        command += [str(part) for name, value in flags.items() for part in (f"--{name}", value)]
        return float(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout)
