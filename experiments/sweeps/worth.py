"""Value ten clients of CIFAR-10 of which two have shuffled labels and two are copies, and train coalitions again.

    FEDLEARN_DATA=... OMP_NUM_THREADS=1 python -m experiments.sweeps.worth [--images 200] [--tests 400] [--rounds 8]

*Ten clients*: six have images of their own, `shuffled` ones have labels in random order, `copy` ones have the same
images. Exact Shapley values of all 1,024 coalitions are printed beside values of random orders with their intervals.
*Copies*: each client draws its own batches, so copies send different changes, and the game is not symmetric in them.
How far that goes is printed over seeds. Then all clients take steps on all their images: copies send the same changes,
but for rounding.
*Five clients*: two with images of their own, one shuffled, two copies. All 31 coalitions are trained again
(``rounds.without``), and their scores and Shapley values are compared with those of rebuilt models by rank. Seconds
are of the processor. The model is `cnn`; images, tests and rounds are few, so the study takes minutes.
"""

from __future__ import annotations

import argparse
import time
from itertools import chain, combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import fedlearn
from fedlearn.commands.shapley import Share, sampled, shapley
from fedlearn.commands.valuing import NORMAL, Game
from fedlearn.data import load_dataset
from fedlearn.data.dataset import Dataset
from fedlearn.report.tables import Table

OWN, SHUFFLED, COPY = "own", "shuffled", "copy"
TEN = [*[OWN] * 6, SHUFFLED, SHUFFLED, COPY, COPY]
BATCH, EPOCHS = 20, 2
WHOLE_STEPS = 10  # of a round, on all images of a client
FIVE = [OWN, OWN, SHUFFLED, COPY, COPY]


def main() -> None:
    """Make the study, then print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=200, help="of a client")
    parser.add_argument("--tests", type=int, default=400, help="images by which models are scored")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--permutations", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3, help="of the runs in which copies draw their own batches")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        drawn = ten_clients(Path(folder) / "ten", given)
        copies(Path(folder), given, drawn)
        five_clients(Path(folder), given)


def ten_clients(out: Path, given: argparse.Namespace, **settings: Any) -> dict[int, Share]:
    """Print exact values beside sampled ones; return the exact ones."""
    run, seconds = trained(out, TEN, given, keep=True, **settings)
    begin = time.process_time()
    game = Game(run.folder, "test")
    exact = shapley(game.clients, game.value)
    valuing = time.process_time() - begin
    guess = sampled(game.clients, game.value, permutations=given.permutations, seed=1)
    lines, inside = [], 0
    for client, kind in enumerate(TEN):
        value, half = guess[client].value, NORMAL * guess[client].error
        inside += abs(value - exact[client].value) <= half
        ends = f"{value - half:.4f} to {value + half:.4f}"
        lines.append([f"{client} ({kind})", f"{exact[client].value:.4f}", f"{value:.4f}", ends])
    a, b = (guess[client] for client in range(8, 10))
    alike = abs(a.value - b.value) <= NORMAL * min(a.error, b.error)
    heads = ["client", "exact", f"{given.permutations} orders", "95 % interval"]
    print(Table.of_texts("worth", "ten clients", heads, lines, words=1).as_markdown())
    print(f"accuracy of all {game.value(frozenset(game.clients)):.4f}, before round 1 {game.value(frozenset()):.4f}")
    print(f"{inside} of 10 exact values lie within the intervals; the copies within each other's: {alike}")
    print(f"CPU seconds: training {seconds:.1f}, valuing {game.valued} coalitions {valuing:.1f}", flush=True)
    return exact


def copies(folder: Path, given: argparse.Namespace, drawn: dict[int, Share]) -> None:
    """Print what copies are worth over the seeds of their batches, and where each step takes all images."""
    values = [[drawn[client].value for client in (8, 9)]]
    for seed in range(2, given.seeds + 1):
        run, _ = trained(folder / f"seed-{seed}", TEN, given, keep=True, seed=seed)
        game = Game(run.folder, "test")
        exact = shapley(game.clients, game.value)
        values.append([exact[client].value for client in (8, 9)])
    found = np.array(values)
    lines = [[str(seed), *(f"{each:.4f}" for each in row)] for seed, row in enumerate(values, 1)]
    print(Table.of_texts("worth", "copies by seed", ["seed", "8 (copy)", "9 (copy)"], lines, words=1).as_markdown())
    less, error = found[:, 0] - found[:, 1], found.std(axis=0, ddof=1)
    print(f"standard deviations over seeds {error[0]:.4f}, {error[1]:.4f}; mean difference {less.mean():+.4f}, its "
          f"standard error {less.std(ddof=1) / np.sqrt(len(less)):.4f}", flush=True)  # fmt: skip
    whole = {"training.batch_size": given.images, "training.local_epochs": WHOLE_STEPS, "training.lr": 0.1}
    ten_clients(folder / "whole", given, **whole)


def five_clients(folder: Path, given: argparse.Namespace) -> None:
    """Print what clients are worth by rebuilt models, and by models that each coalition has trained from the start."""
    run, _ = trained(folder / "five", FIVE, given, keep=True)
    begin = time.process_time()
    game = Game(run.folder, "test")
    rebuilt = shapley(game.clients, game.value)
    valuing, retraining = time.process_time() - begin, 0.0
    again = {frozenset[int](): game.value(frozenset())}
    for some in chain.from_iterable(combinations(game.clients, size) for size in range(1, len(FIVE) + 1)):
        out = [client for client in game.clients if client not in some]
        of_some, seconds = trained(folder / f"{len(again)}", FIVE, given, without=out)
        again[frozenset(some)], retraining = float(of_some.summary[game.metric.name]), retraining + seconds
    values = shapley(game.clients, again.__getitem__)
    lines = [
        [f"{client} ({kind})", f"{rebuilt[client].value:.4f}", f"{values[client].value:.4f}"]
        for client, kind in enumerate(FIVE)
    ]
    print(Table.of_texts("worth", "five clients", ["client", "rebuilt", "trained again"], lines, words=1).as_markdown())
    valued = [each for each in again if each]
    scores = spearmanr([game.value(each) for each in valued], [again[each] for each in valued]).statistic
    ranks = spearmanr([rebuilt[c].value for c in game.clients], [values[c].value for c in game.clients]).statistic
    print(f"rank correlation of {len(valued)} coalitions' accuracies {scores:.3f}, of the five values {ranks:.3f}")
    print(f"CPU seconds: valuing {valuing:.1f}, training {len(valued)} coalitions {retraining:.1f}", flush=True)


def trained(
    out: Path,
    kinds: list[str],
    given: argparse.Namespace,
    *,
    keep: bool = False,
    without: list[int] | None = None,
    **more: Any,
) -> tuple[fedlearn.Run, float]:
    """Return a run of clients of these kinds, and the processor's seconds of it."""
    data, places = dealt(kinds, given.images, given.tests)
    path = out.with_suffix(".json")
    path.write_text(str(places).replace("'", '"'))
    settings: dict[str, Any] = {
        "data.partition": str(path), "rounds.cohort": 0, "contributions.keep": keep, "rounds.without": without or [],
        "training.batch_size": BATCH, "training.local_epochs": EPOCHS, "training.lr": 0.05, **more,
    }  # fmt: skip
    begin = time.process_time()
    run = fedlearn.run(
        clients=len(kinds), data=data, model="cnn", rounds=given.rounds, engine="inline", out=str(out),
        progress=False, settings=settings,
    )  # fmt: skip
    return run, time.process_time() - begin


def dealt(kinds: list[str], images: int, tests: int) -> tuple[Dataset, dict[str, list[int]]]:
    """Return the images of all clients, and which client has which."""
    data, rng = load_dataset("cifar10", ""), np.random.default_rng(1)
    order = rng.permutation(len(data.train))[: len(kinds) * images].reshape(len(kinds), images)
    order[[at for at, kind in enumerate(kinds) if kind == COPY]] = order[kinds.index(COPY)]
    rows = order.ravel()
    targets = np.asarray(data.train.targets)[rows].reshape(order.shape)
    for at, kind in enumerate(kinds):
        if kind == SHUFFLED:
            targets[at] = rng.permutation(targets[at])
    test = data.test.at(rng.permutation(len(data.test))[:tests])
    found = fedlearn.data.from_arrays(
        np.asarray(data.train.inputs)[rows], targets.ravel(), test.inputs, test.targets,
        name="dealt", classes=data.num_classes, mean=data.mean, std=data.std,
    )  # fmt: skip
    return found, {str(at): [*range(at * images, (at + 1) * images)] for at in range(len(kinds))}


if __name__ == "__main__":
    main()
