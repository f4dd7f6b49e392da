"""Run federated averaging on CIFAR-10 in a loop written by hand for two cores: the limit for our engine.

    FEDLEARN_DATA=... python -m experiments.speed.two_process_loop --rounds 5 --evaluate
    FEDLEARN_DATA=... python -m experiments.speed.two_process_loop --workload w2 --json

Why it is the limit: the cores do arithmetic and little else. There is no framework, no
message, no copy of the data and no optimizer object. Each of the two workers is a forked process
with one thread, which beats one process with two threads. The images are one memory-mapped uint8
file in NHWC order, so a batch becomes channels_last by a permutation that copies nothing. Workers
take the next node from a shared counter, train one persistent model whose parameters are views of
a flat buffer, and add the result to their own accumulator in shared memory; the parent adds the
accumulators up once per round.

Which worker trains which node is left to chance, so the order of the float32 sums varies and runs
with the same seed differ in the last digits. The first run decodes the images into ``--cache``;
its start-up time includes that.

Legend: n = parameters, W = workers, B = batch size. All nodes hold equally many images, so every
mean is a plain mean.
"""

import argparse
import ctypes
import io
import json
import multiprocessing as mp
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow.parquet as pq
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

WORKERS = 2
WORKLOADS = {"w1": (100, 100), "w2": (1000, 100)}  # (nodes sharing the 50,000 images, cohort)
EVALUATION_BATCH = 100  # larger batches leave the cache: 1000 takes 1.3-1.7 times as long
# The mean and standard deviation of each color, repeated over the image: the subtraction then
# broadcasts over the batch only, in long vectors. (32, 32, 3)
MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).expand(32, 32, 3).contiguous()
STD = torch.tensor([0.2470, 0.2435, 0.2616]).expand(32, 32, 3).contiguous()


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a run. A ``cohort`` of None is the workload's; round r has ``lr / (1 + lr_decay (r - 1))``.

    A ``keep_ratio`` below 1 is the probability with which a node sends an entry of its trained
    weights. An entry is averaged over the nodes that sent it and stays as it was if none did.
    """

    model: str = "cnn"
    workload: str = "w1"
    rounds: int = 5
    lr: float = 0.1
    momentum: float = 0.0
    local_epochs: int = 1
    batch_size: int = 100
    cohort: int | None = None
    keep_ratio: float = 1.0
    weight_decay: float = 0.0
    lr_decay: float = 0.0
    seed: int = 1
    evaluate: bool = False
    data: Path = Path(os.environ.get("FEDLEARN_DATA", "."))
    cache: Path = Path("~/.cache/fedlearn-baseline")


@dataclass(slots=True)
class Report:
    """The measurements by round; seconds are of training and summing, without evaluation."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)  # of all processes
    accuracies: list[float] = field(default_factory=list)
    startup_seconds: float = 0.0  # process start to end of round 1, less a median later round
    pss_bytes: int = 0  # of all processes after the last round; a shared page counts once


@dataclass(frozen=True, slots=True)
class Shared:
    """Arrays in the memory that parent and workers share.

    Only the parent writes ``weights``; of the other arrays each worker has its own row.
    """

    weights: torch.Tensor  # (n,)
    totals: torch.Tensor  # (W, n): sum of what the nodes sent
    counts: torch.Tensor  # (W, n): how many nodes sent the entry; unused if all entries are sent
    next_item: "mp.sharedctypes.Synchronized[int]"


def build_model(name: str) -> nn.Module:
    """Return ``cnn`` (62,006 parameters) or ``cnn-large`` (2,156,490)."""
    if name == "cnn":
        convolutions = [nn.Conv2d(3, 6, 5), nn.MaxPool2d(2), nn.ReLU()]
        convolutions += [nn.Conv2d(6, 16, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()]
        head = [nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)]
    else:
        convolutions = [nn.Conv2d(3, 32, 5, padding=2), nn.MaxPool2d(2), nn.ReLU()]
        convolutions += [nn.Conv2d(32, 64, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()]
        head = [nn.Linear(4096, 512), nn.ReLU(), nn.Linear(512, 10)]
    return nn.Sequential(*convolutions, *head)


def load_split(settings: Settings, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Return memory-mapped uint8 images (N, 32, 32, 3) and int64 labels (N,).

    The first call decodes the JPEGs and writes the cache.
    """
    cache = settings.cache.expanduser()
    images_file, labels_file = cache / f"{split}_images.npy", cache / f"{split}_labels.npy"
    if not labels_file.exists():  # written last, so it vouches for both
        cache.mkdir(parents=True, exist_ok=True)
        table = pq.read_table(settings.data / "cifar10" / f"{split}.parquet")
        encoded = [row["bytes"] for row in table["img"].to_pylist()]
        pictures = [Image.open(io.BytesIO(jpeg)).convert("RGB") for jpeg in encoded]
        np.save(images_file, np.stack([np.asarray(picture) for picture in pictures]))
        np.save(labels_file, table["label"].to_numpy().astype(np.int64))
    return np.load(images_file, mmap_mode="r"), np.load(labels_file)


def as_batch(images: np.ndarray) -> torch.Tensor:
    """Return normalized float32 images of shape (B, 3, 32, 32) in channels_last order."""
    pixels = torch.from_numpy(images).to(torch.float32)
    return pixels.div_(255).sub_(MEAN).div_(STD).permute(0, 3, 1, 2)


class Worker:
    """A worker: a process that serves many nodes with one model. It is built before the fork and used after it."""

    def __init__(self, index: int, settings: Settings, shared: Shared) -> None:
        self.settings, self.shared = settings, shared
        self.total, self.count = shared.totals[index], shared.counts[index]
        self.images, self.labels = load_split(settings, "train")
        self.test_images, self.test_labels = load_split(settings, "test")
        nodes = WORKLOADS[settings.workload][0]
        shuffled = np.random.default_rng(settings.seed).permutation(len(self.labels))
        self.shards = shuffled.reshape(nodes, -1)  # IID: image indices of each node
        self.model = build_model(settings.model)
        self.parameters = list(self.model.parameters())
        self.flat = torch.empty_like(shared.weights)
        self.velocity = torch.zeros_like(shared.weights)
        self.velocities = views(self.velocity, self.parameters)
        for parameter, view in zip(self.parameters, views(self.flat, self.parameters), strict=True):
            parameter.data = view
        self.tensors: list[torch.Tensor] = list(self.parameters)

    def serve(self, inbox: Connection) -> None:
        """Answer every order with (correct predictions, CPU seconds) until the order is None."""
        while (order := inbox.recv()) is not None:
            started = time.process_time()
            correct = 0
            if order == "evaluate":
                correct = self.evaluate()
            else:
                self.train(*order)
            inbox.send((correct, time.process_time() - started))

    def items(self, limit: int) -> Iterator[int]:
        """Yield numbers below ``limit`` that no other worker has taken in this round."""
        while True:
            with self.shared.next_item.get_lock():
                item = self.shared.next_item.value
                self.shared.next_item.value += 1
            if item >= limit:
                return
            yield item

    def train(self, cohort: np.ndarray, lr: float, round_number: int) -> None:
        """Train nodes of the cohort from the round's weights and add up their entries."""
        self.total.zero_()
        if self.settings.keep_ratio < 1:
            self.count.zero_()
        for i in self.items(len(cohort)):
            rng = np.random.default_rng([self.settings.seed, round_number, int(cohort[i])])
            self.fit(self.shards[cohort[i]], lr, rng)
            if self.settings.keep_ratio < 1:
                draws = torch.from_numpy(rng.random(len(self.flat), dtype=np.float32))
                sent = draws < self.settings.keep_ratio
                self.total.addcmul_(self.flat, sent)
                self.count.add_(sent)
            else:
                self.total.add_(self.flat)

    def fit(self, shard: np.ndarray, lr: float, rng: np.random.Generator) -> None:
        """Run the local epochs of one node with plain SGD; momentum starts at zero."""
        settings = self.settings
        self.flat.copy_(self.shared.weights)
        if settings.momentum:
            self.velocity.zero_()
        for _ in range(settings.local_epochs):
            order = rng.permutation(shard)
            for start in range(0, len(order), settings.batch_size):
                batch = order[start : start + settings.batch_size]
                logits = self.model(as_batch(self.images[batch]))  # (B, 10)
                loss = F.cross_entropy(logits, torch.from_numpy(self.labels[batch]))
                self.step(list(torch.autograd.grad(loss, self.parameters)), lr)

    @torch.no_grad()
    def step(self, gradients: list[torch.Tensor], lr: float) -> None:
        """Make a step with the arithmetic of ``torch.optim.SGD``."""
        if self.settings.weight_decay:
            torch._foreach_add_(gradients, self.tensors, alpha=self.settings.weight_decay)
        if self.settings.momentum:
            torch._foreach_mul_(self.velocities, self.settings.momentum)
            torch._foreach_add_(self.velocities, gradients)
            gradients = self.velocities
        torch._foreach_add_(self.tensors, gradients, alpha=-lr)

    @torch.inference_mode()
    def evaluate(self) -> int:
        """Return how many of the test images this worker took are classified correctly."""
        self.flat.copy_(self.shared.weights)
        correct = 0
        for i in self.items(len(self.test_labels) // EVALUATION_BATCH):
            batch = slice(i * EVALUATION_BATCH, (i + 1) * EVALUATION_BATCH)
            guesses = self.model(as_batch(np.array(self.test_images[batch]))).argmax(1)
            correct += int((guesses == torch.from_numpy(self.test_labels[batch])).sum())
        return correct


def views(flat: torch.Tensor, parameters: list[nn.Parameter]) -> list[torch.Tensor]:
    """Cut a flat buffer into tensors shaped like the parameters."""
    pieces = flat.split([p.numel() for p in parameters])
    return [piece.view_as(p) for piece, p in zip(pieces, parameters, strict=True)]


def run(settings: Settings) -> Report:
    """Make a run and return its measurements; it forks, so torch must not have used several threads before."""
    keep_freed_memory()
    torch.set_num_threads(1)
    torch.manual_seed(settings.seed)
    weights = nn.utils.parameters_to_vector(build_model(settings.model).parameters()).detach()
    context = mp.get_context("fork")
    shared = Shared(
        weights=weights.share_memory_(),
        totals=torch.zeros(WORKERS, len(weights)).share_memory_(),
        counts=torch.zeros(WORKERS, len(weights)).share_memory_(),
        next_item=context.Value("q", 0),
    )
    pipes, processes = [], []
    for worker in [Worker(index, settings, shared) for index in range(WORKERS)]:
        ours, theirs = context.Pipe()
        processes.append(context.Process(target=worker.serve, args=(theirs,), daemon=True))
        processes[-1].start()
        pipes.append(ours)
    report = Report()
    try:
        drive(settings, shared, pipes, report)
        report.pss_bytes = pss_bytes(os.getpid()) + sum(pss_bytes(p.pid or 0) for p in processes)
    finally:
        for pipe in pipes:
            pipe.send(None)
        for process in processes:
            process.join()
    return report


def drive(settings: Settings, shared: Shared, pipes: list[Connection], report: Report) -> None:
    """Run the rounds from the parent process, which itself only adds up."""
    nodes, usual_cohort = WORKLOADS[settings.workload]
    rng = np.random.default_rng([settings.seed, nodes])
    for round_number in range(1, settings.rounds + 1):
        started, cpu_started = time.perf_counter(), time.process_time()
        cohort = rng.choice(nodes, settings.cohort or usual_cohort, replace=False)
        lr = settings.lr / (1 + settings.lr_decay * (round_number - 1))
        answers = ask(pipes, shared, (cohort, lr, round_number))
        shared.weights.copy_(mean_of_sent(settings, shared, len(cohort)))
        report.seconds.append(time.perf_counter() - started)
        report.cpu_seconds.append(time.process_time() - cpu_started + sum(cpu for _, cpu in answers))
        if round_number == 1:
            report.startup_seconds = seconds_since_process_start()
        if settings.evaluate:
            correct = sum(result for result, _ in ask(pipes, shared, "evaluate"))
            report.accuracies.append(correct / 10_000)
    report.startup_seconds -= median(report.seconds[1:] or report.seconds)


def ask(pipes: list[Connection], shared: Shared, order: object) -> list[tuple[int, float]]:
    """Give all workers the same order and return their answers (correct predictions, CPU seconds)."""
    shared.next_item.value = 0
    for pipe in pipes:
        pipe.send(order)
    return [pipe.recv() for pipe in pipes]


def mean_of_sent(settings: Settings, shared: Shared, cohort: int) -> torch.Tensor:
    """Return the mean of each entry over the nodes that sent it, or its old value if no node did."""
    total = shared.totals.sum(0)
    if settings.keep_ratio == 1:
        return total.div_(cohort)
    count = shared.counts.sum(0)
    return torch.where(count > 0, total / count.clamp(min=1), shared.weights)


def keep_freed_memory() -> None:
    """Tell glibc to reuse freed memory rather than return it to the kernel.

    Otherwise each step maps its activations anew and a W1 round takes 3.6 instead of 2.7 seconds.
    """
    libc = ctypes.CDLL(None)
    trim_threshold, mmap_threshold = -1, -3  # names of options in malloc.h
    libc.mallopt(mmap_threshold, 32 << 20)  # the most that glibc accepts
    libc.mallopt(trim_threshold, 512 << 20)


def seconds_since_process_start() -> float:
    """Return the age of this process, to a hundredth of a second."""
    ticks = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def pss_bytes(pid: int) -> int:
    """Return the proportional set size: a page that k processes share counts 1/k in each."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def parse_arguments() -> tuple[Settings, bool]:
    """Return the settings of the command line and whether to print JSON."""
    defaults = Settings()
    parser = argparse.ArgumentParser(description="Federated averaging by hand on two cores.")
    parser.add_argument("--model", choices=["cnn", "cnn-large"], default=defaults.model)
    parser.add_argument("--workload", choices=list(WORKLOADS), default=defaults.workload)
    parser.add_argument("--cohort", type=int, help="nodes per round; by default the workload's 100")
    types: dict[str, Callable[[str], object]] = dict.fromkeys(("rounds", "local_epochs", "batch_size", "seed"), int)
    types |= dict.fromkeys(("lr", "momentum", "keep_ratio", "weight_decay", "lr_decay"), float)
    types |= dict.fromkeys(("data", "cache"), Path)
    for name, kind in types.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=kind, default=getattr(defaults, name))
    parser.add_argument("--evaluate", action="store_true", help="test accuracy after each round")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    options = vars(parser.parse_args())
    as_json = options.pop("json")
    return Settings(**options), as_json


def main() -> None:
    """Make a run and print the measurements."""
    settings, as_json = parse_arguments()
    report = run(settings)
    steady = median(report.seconds[1:] or report.seconds)
    if as_json:
        numbers = asdict(report) | {"median_steady_seconds": steady}
        numbers["cpu_seconds"] = median(report.cpu_seconds[1:] or report.cpu_seconds)
        print(json.dumps({"settings": asdict(settings), **numbers}, default=str))
        return
    for i, seconds in enumerate(report.seconds):
        accuracy = f" accuracy={report.accuracies[i]:.4f}" if report.accuracies else ""
        cpu = report.cpu_seconds[i]
        print(f"round={i + 1} seconds={seconds:.3f} cpu_seconds={cpu:.3f}{accuracy}")
    megabytes = report.pss_bytes / 1e6
    print(f"steady={steady:.3f} startup={report.startup_seconds:.2f} pss_mb={megabytes:.0f}")


if __name__ == "__main__":
    main()
