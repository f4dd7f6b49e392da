"""Membership inference against networks: plain, clipped, and differentially private ones; attack AUC beside epsilon.

    python -m experiments.private_networks.membership

A linear model learns digits on 20 nodes. Each of several models has learned a random half of 400 images. Two attacks
guess for each image whether a model has learned it:

- *loss*: by its loss (Yeom, Giacomelli, Fredrikson, Jha 2018, arXiv:1709.01604);
- *LiRA*, a light one: by the likelihood ratio of its scaled confidence under two Gaussians, fitted to the other models
  that have learned this image, and to those that have not; deviations are those of all images together (Carlini et al.
  2022, arXiv:2112.03570, online, with few models).

AUC 0.5 is guessing, 1 is certainty. "Allowed" is the largest AUC that any attack on the protected unit can have, whose
true and false positive rates are at most exp(epsilon) apart, up to delta. Where nodes are protected the attack is still
on single records, whose loss is at most that of their node.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import fedlearn

IMAGES, NODES, ROUNDS = 400, 20, 10
DELTA = 1e-5
Flat = NDArray[np.float64]
Settings = Mapping[str, object]

NODES_OF = {"privacy.protects": "nodes", "privacy.delta": DELTA, "privacy.clip": 1.0}
RECORDS_OF = {"privacy.protects": "records", "privacy.delta": DELTA, "privacy.clip": 1.0}
ALMOST_NONE = {"privacy.epsilon": 1e9, "privacy.noise_multiplier": 1e-3}  # clipped, with noise that hides nothing
NETWORKS: dict[str, tuple[Settings, str]] = {
    "plain": ({}, "none"),
    "clipped changes of nodes": (NODES_OF | ALMOST_NONE, "none"),
    "nodes, central noise": (NODES_OF | {"privacy.epsilon": 8.0}, "8 per node"),
    "nodes, distributed noise": (NODES_OF | {"privacy.epsilon": 8.0, "privacy.trust": "distributed"}, "8 per node"),
    "records, DP-SGD, epsilon 8": (RECORDS_OF | {"privacy.epsilon": 8.0}, "8 per record"),
    "records, DP-SGD, epsilon 1": (RECORDS_OF | {"privacy.epsilon": 1.0}, "1 per record"),
}


def confidences(settings: Settings, members: NDArray[np.bool_], seed: int) -> tuple[Flat, float]:
    """Return the scaled confidence log(p / (1 - p)) of the true class of each image, and accuracy on others."""
    digits = load_digits()
    x, y = (digits.data / 16).astype(np.float32), digits.target
    data = x[:IMAGES][members], y[:IMAGES][members], x[IMAGES:], y[IMAGES:]
    plain = {
        "training.local_epochs": 10,
        "training.batch_size": 10,
        "training.lr_schedule": "constant",
        "evaluation.every": ROUNDS,
    }
    with tempfile.TemporaryDirectory() as folder:
        run = fedlearn.run(
            NODES, data=data, model="linear", cohort=NODES, rounds=ROUNDS, lr=0.5, engine="inline", seed=seed,
            settings=plain | dict(settings), out=Path(folder) / "run", progress=False,
        )  # fmt: skip
        model, accuracy = run.model(), float(run.summary["accuracy"])
        assert isinstance(model, torch.nn.Module)
        with torch.no_grad():
            logits = model.eval()(torch.from_numpy(x[:IMAGES])).double()
    true = logits.gather(1, torch.from_numpy(y[:IMAGES])[:, None])[:, 0]
    others = logits.scatter(1, torch.from_numpy(y[:IMAGES])[:, None], -math.inf).logsumexp(1)
    return (true - others).numpy(), accuracy


def lira(scores: Flat, members: NDArray[np.bool_], target: int) -> Flat:
    """Return the log-likelihood ratio of each image for one of the models, (images,), by all the other models.

    Parameters
    ----------
    scores, members
        (models, images): scaled confidences, and whether the model has learned the image.
    """
    rest = np.arange(len(scores)) != target
    inside, outside = (np.ma.masked_array(scores[rest], mask=m) for m in (~members[rest], members[rest]))
    ratios = []
    for group in (inside, outside):
        middle = group.mean(axis=0)
        deviation = float((group - middle).std()) + 1e-9
        ratios.append(-(((scores[target] - middle) / deviation) ** 2) / 2 - math.log(deviation))
    return np.asarray(ratios[0] - ratios[1])


def allowed(epsilon: str) -> float:
    """Return the largest AUC of an attack where epsilon is promised at `DELTA`; 1 where none is.

    Of false positive rates f the true ones are at most min(1, exp(e) f + d, 1 - exp(-e) (1 - d - f)).
    """
    if epsilon == "none":
        return 1.0
    e, rates = float(epsilon.split()[0]), np.linspace(0, 1, 200_001)
    found = np.minimum(np.exp(e) * rates + DELTA, 1 - np.exp(-e) * (1 - DELTA - rates))
    return float(np.trapezoid(np.clip(found, 0, 1), rates))


def main() -> None:
    """Print a row for each kind of network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=24, help="models of each kind, each attacked once")
    models = parser.parse_args().models
    rng = np.random.default_rng(1)
    members = np.array([rng.permutation(IMAGES) < IMAGES // 2 for _ in range(models)])
    print("| network | epsilon | accuracy | AUC, loss | AUC, LiRA | allowed |\n|---|---|---|---|---|---|", flush=True)
    for name, (settings, epsilon) in NETWORKS.items():
        found = [confidences(settings, who, seed) for seed, who in enumerate(members, start=1)]
        scores = np.array([each for each, _ in found])
        losses = np.logaddexp(0, -scores)
        by_loss = [roc_auc_score(who, -each) for who, each in zip(members, losses, strict=True)]
        by_ratio = [roc_auc_score(who, lira(scores, members, at)) for at, who in enumerate(members)]
        accuracy = np.mean([each for _, each in found])
        spread = [f"{np.mean(each):.3f} ({np.std(each) / math.sqrt(models):.3f})" for each in (by_loss, by_ratio)]
        print(f"| {name} | {epsilon} | {accuracy:.3f} | {' | '.join(spread)} | {allowed(epsilon):.3f} |", flush=True)


if __name__ == "__main__":
    main()
