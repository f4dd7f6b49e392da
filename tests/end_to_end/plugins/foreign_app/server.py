"""A server app without fedlearn, in a module named `server` as the package of fedlearn is."""

import random

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

BIAS = np.random.normal()  # drawn when the module is imported
app = ServerApp()


@app.main()
def main(grid, context):
    first = ArrayRecord({"w": type_of(np.full(5, random.random() + BIAS))})
    strategy = FedAvg(fraction_train=0.5)  # samples with `random`
    result = strategy.start(grid=grid, initial_arrays=first, num_rounds=context.run_config["rounds"])
    print("result", result.arrays["w"].numpy().tolist())


def type_of(array):
    from flwr.app import Array

    return Array(array)
