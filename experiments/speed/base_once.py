"""Memory and processor time of federated fine-tuning of a large random model, beside a loop written by hand.

    python -m experiments.speed.base_once
    python -m experiments.speed.base_once --layers 2 --width 128 --clients 4

A GPT-2 with random weights has low-rank adapters by `peft`. Each of its clients trains the adapters on a few texts, in
two worker processes. Beside it, two processes written by hand each hold the model, train the adapters of half of the
clients, and send them to a third, which averages them.

Memory is the proportional set size of all processes: the median of looks in the second half of the run, and the largest
in brackets. Seconds are those of processors, of a round: the mean of all but the first; and of all before them, imports
and models among them. With ``--pairs`` fedlearn and the loop by hand take turns, and the ratios of a round, and the
differences before, are printed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from torch import nn

import fedlearn
from fedlearn.data import from_arrays
from fedlearn.models.torch import mapped_base
from fedlearn.runs import machine_usage
from fedlearn.runs.log import Event

VOCABULARY, LENGTH, EXAMPLES, RANK, LR, WORKERS = 16_000, 32, 2, 8, 1e-3, 2
IMPORTING = (
    "import torch, transformers, peft; from fedlearn.runs.machine_usage import memory_bytes; print(memory_bytes())"
)


def adapted(layers: int, width: int, apart: bool = False) -> nn.Module:
    """Return the model; with `apart` each process keeps frozen weights of its own."""
    import peft
    import transformers

    if apart:
        mapped_base.SMALLEST = sys.maxsize
    torch.manual_seed(1)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=width, n_layer=layers, n_head=width // 64,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    kind = {"target_modules": ["c_attn"], "fan_in_fan_out": True, "task_type": "CAUSAL_LM"}
    made: nn.Module = peft.get_peft_model(transformers.GPT2LMHeadModel(config), peft.LoraConfig(r=RANK, **kind))
    return made


def texts(clients: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random tokens, and the next tokens."""
    tokens = np.random.default_rng(1).integers(0, VOCABULARY, (clients * EXAMPLES, LENGTH + 1))
    return tokens[:, :-1], tokens[:, 1:]


@contextmanager
def looking() -> Iterator[list[float]]:
    """Look at the memory of all processes every two seconds of the block; the second half is of the rounds."""
    sizes, ended = [float(machine_usage.memory_bytes() or 0)], threading.Event()

    def look() -> None:
        while not ended.wait(2):
            sizes.append(float(machine_usage.memory_bytes() or 0))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield sizes
    finally:
        ended.set()
        thread.join()


class Taken:
    """Listener that notes the processor seconds of all processes when a round is committed."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def take(self, event: Event) -> None:
        """See Listener."""
        if event.get("event") == "committed":
            self.seconds.append(machine_usage.cpu_seconds() or 0.0)

    def close(self) -> None:
        """See Listener."""


def of_fedlearn(clients: int, rounds: int, making: Any) -> tuple[float, float, list[float]]:
    """Return the memory in bytes, median and largest, and the processor seconds after each round."""
    tokens, following = texts(clients)
    groups = np.repeat(np.arange(clients), EXAMPLES)
    data = from_arrays(
        tokens, following, tokens[:2], following[:2], groups=groups, groups_test=groups[:2], vocabulary=VOCABULARY,
        classes=VOCABULARY,
    )  # fmt: skip
    before, taken = machine_usage.cpu_seconds() or 0.0, Taken()
    with tempfile.TemporaryDirectory() as folder, looking() as sizes:
        fedlearn.run(
            clients=clients, cohort=0, data=data, model=making, rounds=rounds, batch_size=EXAMPLES, local_epochs=1,
            lr=LR, partition="natural", engine="embedded", progress=False, out=folder + "/run",
            settings={"training.momentum": 0.0, "engine.workers": WORKERS, "evaluation.where": "none"}, log=taken,
        )  # fmt: skip
    return *_memory(sizes), [each - before for each in taken.seconds]


def by_hand(clients: int, rounds: int, making: Any) -> tuple[float, float, list[float]]:
    """Return the same of two processes with a loop of their own."""
    before = machine_usage.cpu_seconds() or 0.0
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for worker in range(WORKERS):
        mine, theirs = context.Pipe()
        processes.append(context.Process(target=_worker, args=(theirs, making, clients, worker), daemon=True))
        processes[-1].start()
        pipes.append(mine)
    state, seconds = None, []
    with looking() as sizes:
        for _ in range(rounds):
            for pipe in pipes:
                pipe.send(state)
            both = [pipe.recv() for pipe in pipes]
            state = {name: sum(each[name] for each in both) / clients for name in both[0]}
            seconds.append((machine_usage.cpu_seconds() or 0.0) - before)
    for pipe, process in zip(pipes, processes, strict=True):
        pipe.close()
        process.join()
    return *_memory(sizes), seconds


def _memory(sizes: list[float]) -> tuple[float, float]:
    return statistics.median(sizes[len(sizes) // 2 :]), max(sizes)


def _size(making: Any) -> int:
    return sum(each.nbytes for each in making().parameters())


def _worker(pipe: Connection, making: Any, clients: int, worker: int) -> None:
    torch.set_num_threads(1)
    model = making().train()
    trained = {name: each for name, each in model.named_parameters() if each.requires_grad}
    state = {name: each.detach().numpy().copy() for name, each in trained.items()}
    tokens, following = (torch.from_numpy(each) for each in texts(clients))
    while True:
        try:
            state = pipe.recv() or state
        except EOFError:
            return
        total: dict[str, Any] = {}
        for client in range(worker, clients, WORKERS):
            rows = slice(client * EXAMPLES, (client + 1) * EXAMPLES)
            for name, each in trained.items():
                each.data.copy_(torch.from_numpy(state[name]))
            logits = model(tokens[rows]).logits
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), following[rows].flatten())
            for each, gradient in zip(trained.values(), torch.autograd.grad(loss, list(trained.values())), strict=True):
                each.data.add_(gradient, alpha=-LR)
            for name, each in trained.items():
                total[name] = total.get(name, 0) + each.detach().numpy().astype(np.float64)
        pipe.send(total)


def beside(pairs: int, more: int, arguments: list[str]) -> None:
    """Print the processor seconds of fedlearn and of the loop by hand, in turns, each in a process of its own."""
    print("| fedlearn, CPU s of a round | before | by hand, of a round | before |\n|---|---|---|---|", flush=True)
    found = []
    for _ in range(pairs):
        row = [
            each
            for way in ("fedlearn", "by hand")
            for each in _seconds([*arguments, "--only", way, "--more", str(more)])
        ]
        found.append(row)
        print("| " + " | ".join(f"{each:.2f}" for each in row) + " |", flush=True)
    ratios, later = sorted(a / b for a, _, b, _ in found), sorted(a - b for _, a, _, b in found)
    for name, values in (("a round, by hand = 1", ratios), ("before a round, s more than by hand", later)):
        print(f"{name}: {values[0]:.2f} / {statistics.median(values):.2f} / {values[-1]:.2f} (min, median, max)")


def _seconds(arguments: list[str]) -> list[float]:
    command = [sys.executable, "-m", "experiments.speed.base_once", *arguments]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [float(each) for each in printed.split()[-2:]]


def _parts(seconds: list[float]) -> tuple[float, float]:
    """Return the seconds of a round, and of all before the first."""
    each = (seconds[-1] - seconds[0]) / (len(seconds) - 1)
    return each, seconds[0] - each


def main() -> None:
    """Print a table of the three ways, and what they are compared with."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--more", type=int, default=3, help="rounds of the longer run, beside one")
    parser.add_argument("--memory", action="store_true", help="only memory, of one run")
    parser.add_argument("--pairs", type=int, default=0, help="compare processor time, this many times")
    parser.add_argument("--only", choices=["fedlearn", "by hand"], help="print the processor seconds of one way")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    options = parser.parse_args()
    making = partial(adapted, options.layers, options.width)
    if options.only:
        only = of_fedlearn if options.only == "fedlearn" else by_hand
        print(*_parts(only(options.clients, 1 + options.more, making)[-1]))
        return
    if options.pairs:
        named = {name: str(vars(options)[name]) for name in ("clients", "layers", "width")}
        beside(options.pairs, options.more, [word for name, size in named.items() for word in (f"--{name}", size)])
        return
    importing = int(subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, check=True).stdout)
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # no model in this process
        base = pool.apply(_size, (making,))
    print(f"base {base / 1e9:.2f} GB; imports of torch, transformers and peft {importing / 1e9:.2f} GB a process")
    print("| way | memory, GB | CPU s of a round |\n|---|---|---|", flush=True)
    ways = {
        "fedlearn": partial(of_fedlearn, making=making),
        "fedlearn, a base in each process": partial(of_fedlearn, making=partial(making, apart=True)),
        "two processes by hand": partial(by_hand, making=making),
    }
    for name, way in ways.items():
        memory, largest, after = way(options.clients, 1 + options.more)
        sizes, seconds = f"{memory / 1e9:.2f} ({largest / 1e9:.2f})", "-"
        if not options.memory:
            seconds = f"{_parts(after)[0]:.1f}"
        print(f"| {name} | {sizes} | {seconds} |", flush=True)


if __name__ == "__main__":
    main()
