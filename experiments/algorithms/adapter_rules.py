"""Compare the rules for low-rank adapters on one task with skew: accuracy, bytes, seconds, error of the mean product.

    python -m experiments.algorithms.adapter_rules
    python -m experiments.algorithms.adapter_rules --seeds 1 --rounds 5

The network, the rows and their rotation are those of `few_bytes`. Twenty clients, each with few of the classes
(Dirichlet 0.3), five in each round, train the adapters of rank 8, for two passes. A client tests its own model on a
fifth of its rows, which FedSA-LoRA needs, as its B are personal; the other rules are also tested on rows that no client
has. Each rule's learning rate is the best of three, by the clients' rows, on a seed of its own.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Mapping
from time import process_time
from typing import Any

from torch import nn

import fedlearn
from experiments.algorithms import few_bytes
from experiments.algorithms.few_bytes import CLIENTS, COHORT, RANK, pretrained, rows
from fedlearn.data import from_arrays

RULES = ("fedavg", "fedit", "ffa-lora", "flexlora", "flora", "fedsa-lora")
RATES = (0.03, 0.1, 0.3)
SEED_OF_RATES = 11
PERSONAL = "fedsa-lora"


def adapted(base: nn.Sequential, rank: int) -> nn.Sequential:
    """Return the network with an adapter of a rank in each layer."""
    before, few_bytes.RANK = few_bytes.RANK, rank
    try:
        return few_bytes.adapted(base)
    finally:
        few_bytes.RANK = before


def one(rule: str, seed: int, rounds: int, lr: float) -> Mapping[str, float | None]:
    """Return what a run of a rule measures."""
    X, y = rows(seed + 100, angle=0.9)
    X_test, y_test = rows(seed + 200, angle=0.9)
    options: dict[str, Any] = {"strategy.options.ranks": [RANK]} if rule == "flora" else {}
    begun = process_time()
    with tempfile.TemporaryDirectory() as folder:
        run = fedlearn.run(
            clients=CLIENTS, cohort=COHORT, data=from_arrays(X, y, X_test, y_test, mean=0, std=1),
            model=adapted(pretrained(seed), 2 * RANK if rule == "flora" else RANK), strategy=rule, rounds=rounds, lr=lr,
            batch_size=20, seed=seed, partition="dirichlet", engine="inline", progress=False, out=folder + "/run",
            settings={
                "data.alpha": 0.3, "training.lr_schedule": "constant", "training.local_epochs": 2,
                "training.momentum": 0.0, "data.node_test_share": 0.2, "evaluation.nodes": CLIENTS,
                "evaluation.every": rounds, **options,
            },
        )  # fmt: skip
        shares = run.nodes.dropna(subset=["accuracy"])
        errors = run.history.get("product_error")
        return {
            "clients": float((shares["accuracy"] * shares["test_examples"]).sum() / shares["test_examples"].sum()),
            "all": None if rule == PERSONAL else run.summary["accuracy"],
            "up": run.summary["bytes_up"] / (COHORT * rounds),
            "down": run.summary["bytes_down"] / (COHORT * rounds),
            "error": None if errors is None else float(errors.mean()),
            "seconds": (process_time() - begun) / rounds,
        }


def main() -> None:
    """Print a table, one line for each rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    print("| rule | rate | on clients' rows | on all | bytes up | bytes down | product error | CPU s a round |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for rule in RULES:
        tried = {rate: one(rule, SEED_OF_RATES, options.rounds, rate)["clients"] or 0.0 for rate in RATES}
        rate = max(tried, key=lambda each: tried[each])
        found = [one(rule, seed, options.rounds, rate) for seed in range(1, options.seeds + 1)]
        shown = [_shown([each[name] for each in found], digits) for name, digits in
                 (("clients", 3), ("all", 3), ("up", 0), ("down", 0), ("error", 3), ("seconds", 2))]  # fmt: skip
        print(f"| {rule} | {rate} | {' | '.join(shown)} |", flush=True)


def _shown(values: list[float | None], digits: int) -> str:
    numbers = [each for each in values if each is not None]
    if not numbers:
        return "-"
    mean = f"{statistics.mean(numbers):,.{digits}f}"
    spread = f"{min(numbers):.{digits}f} to {max(numbers):.{digits}f}"
    return f"{mean} ({spread})" if digits == 3 and len(numbers) > 1 else mean


if __name__ == "__main__":
    main()
