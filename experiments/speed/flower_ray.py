"""Time the same rounds on Flower's Simulation Runtime (Ray), in the code of a Flower user.

    python -m experiments.speed.flower_ray --model cnn --workload w1 --rounds 5 --json

FedAvg of Flower over ClientApps that train the same CNN, of torch's own layers, on the same number of images by the
same number of SGD steps; the client code is the usual one (NCHW float batches, `torch.optim.SGD`,
``load_state_dict``). Only training and averaging are timed. Needs ``pip install 'fedlearn[ray]'``. Ray gives its
workers a niceness of 15; it is set to 0 here, as Flower would look worse than it is.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterable
from functools import cache
from statistics import median
from typing import Any

os.environ["RAY_worker_niceness"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

import psutil
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn

from experiments.speed.two_process_loop import build_model
from experiments.watching import cpu_of_children, pss_of_children
from fedlearn.config.tables.data import DataSettings
from fedlearn.data import load_dataset, partition_table

WORKLOADS = {"w1": (100, 100), "w2": (1000, 100)}  # (nodes, cohort)
MODELS = ("cnn", "cnn-large")
BATCH = 100

client = ClientApp()


@cache
def _data(nodes: int) -> tuple[Any, Any]:
    dataset = load_dataset("cifar10", "")
    return dataset, partition_table(dataset, DataSettings(), num_partitions=nodes, seed=1)


@cache
def _module(name: str) -> nn.Module:
    torch.set_num_threads(1)
    return build_model(name)


@client.train()
def train(message: Message, context: Context) -> Message:
    """Train one local epoch, as the tutorials do."""
    config = message.content.config_records["config"]
    dataset, table = _data(int(context.node_config["num-partitions"]))
    rows = table.indices(int(context.node_config["partition-id"]))
    module = _module(str(config["model"]))
    module.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(module.parameters(), lr=float(str(config["lr"])))
    mean = torch.tensor(dataset.mean).view(3, 1, 1)
    std = torch.tensor(dataset.std).view(3, 1, 1)
    for chunk in torch.randperm(len(rows)).split(BATCH):
        mine = rows[chunk.numpy()]
        images = torch.from_numpy(dataset.train.inputs[mine]).permute(0, 3, 1, 2).contiguous().float() / 255
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module((images - mean) / std), torch.from_numpy(dataset.train.labels[mine]))
        loss.backward()
        optimizer.step()
    content = RecordDict()
    content["arrays"] = ArrayRecord(module.state_dict())
    content["metrics"] = MetricRecord({"num-examples": len(rows)})
    return Message(content, reply_to=message)


class TimedFedAvg(FedAvg):
    """A strategy that notes when the training of each round begins and ends."""

    def __init__(self, fraction: float, **options: Any) -> None:
        super().__init__(fraction_train=fraction, fraction_evaluate=0.0, **options)
        self.seconds: list[float] = []
        self.cpu_seconds: list[float] = []
        self.first_round_ended = 0.0

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Start the clock."""
        self._began, self._used = time.time(), cpu_of_children(os.getpid())
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Stop the clock; raise if a client has failed, as the round would look faster than it is."""
        replies = list(replies)
        if failed := [reply.error.reason for reply in replies if reply.has_error()]:
            raise RuntimeError(f"{len(failed)} of {len(replies)} clients failed: {failed[0]}")
        result = super().aggregate_train(server_round, replies)
        self.seconds.append(time.time() - self._began)
        self.cpu_seconds.append(cpu_of_children(os.getpid()) - self._used)
        self.first_round_ended = self.first_round_ended or time.time()
        return result


def main() -> None:
    """Make a run and print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", choices=MODELS, default="cnn")
    parser.add_argument("--workload", choices=WORKLOADS, default="w1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    nodes, cohort = WORKLOADS[options.workload]
    strategy = TimedFedAvg(cohort / nodes)
    server = ServerApp()
    pss = 0

    @server.main()
    def run(grid: Grid, context: Context) -> None:
        nonlocal pss
        arrays = ArrayRecord(_module(options.model).state_dict())
        told = ConfigRecord({"model": options.model, "lr": options.lr})
        strategy.start(grid, arrays, num_rounds=options.rounds, train_config=told)
        pss = pss_of_children(os.getpid())

    warnings.simplefilter("ignore")
    run_simulation(server, client, nodes, backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}})
    steady = median(strategy.seconds[1:])
    result = {
        "seconds": strategy.seconds,
        "median_steady_seconds": steady,
        "cpu_seconds": median(strategy.cpu_seconds[1:]),
        "startup_seconds": strategy.first_round_ended - psutil.Process().create_time() - steady,
        "pss_bytes": pss,
    }
    print(json.dumps(result) if options.json else result)


if __name__ == "__main__":
    # Import the module by its name, not as __main__: Ray's workers have to find the client app, too.
    from experiments.speed import flower_ray

    flower_ray.main()
