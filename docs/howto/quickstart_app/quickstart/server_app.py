"""What the server does."""

from __future__ import annotations

import time

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from quickstart.task import Net

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run FedAvg, and keep the model if told where."""
    config = context.run_config
    result = FedAvg(fraction_train=float(config["fraction-train"])).start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        train_config=ConfigRecord({"lr": float(config["learning-rate"])}),
        num_rounds=int(config["num-server-rounds"]),
        evaluate_fn=_say_when,
    )
    if config["out"]:
        torch.save(result.arrays.to_torch_state_dict(), str(config["out"]))


def _say_when(server_round: int, _: ArrayRecord) -> MetricRecord:
    print(f"round={server_round} at={time.monotonic():.3f}", flush=True)
    return MetricRecord({"round": server_round})
