"""Time a round over a network: our clients and rounds beside Flower's default executor and ``Strategy.start``.

    FEDLEARN_DATA=... python -m experiments.speed.deployment_time --clients 3 --repeats 3

Both start a SuperLink, SuperNodes and a run on this host, without TLS; both run our ClientApp on the same shards of
CIFAR-10 and average by FedAvg. *flower* is the default of ``flower-superlink``, ``flower-supernode`` and ``flwr run``:
a new Python process for every message, polls every three seconds. *fedlearn* is started as docker-compose.yml does.
They take turns; a repeat's figure is its median round after the first, selection included, without evaluation.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from rich.console import Console
from rich.table import Table

from experiments.speed.flower_ray import TimedFedAvg
from fedlearn import wire
from fedlearn.config import RunConfig, from_flower, to_flower
from fedlearn.engine.processes import free_port
from fedlearn.flower.control import Away, Control
from fedlearn.models.loaded import initial_state

APP = Path(__file__).parents[2]
PATIENCE = 300.0  # seconds for a federation to be up

server = ServerApp()


@server.main()
def start(grid: Grid, context: Context) -> None:
    """Run the rounds as Flower's tutorials do."""
    config = from_flower(context.run_config)
    nodes = config.rounds.cohort
    strategy = TimedFedAvg(1.0, min_train_nodes=nodes, min_available_nodes=nodes)
    strategy.start(grid, wire.pack_arrays(initial_state(context.run_config, {})), num_rounds=config.rounds.total)
    Path(config.out).write_text(json.dumps(strategy.seconds))


def time_fedlearn(config: RunConfig, folder: Path) -> list[float]:
    """Return the seconds of each round on fedlearn."""
    with ExitStack() as processes:
        ours = [sys.executable, "-m", "fedlearn.engine.deployment.superlink"]
        address = _superlink(processes, folder, *ours, "--isolation", "process")
        words = ["--server", "--insecure", "--runtime-api-address", address]
        executor = [sys.executable, "-m", "fedlearn.engine.deployment.executor", *words]
        processes.enter_context(_running(folder, executor))
        keys = folder / "keys"
        keys.mkdir()
        for shard in range(config.clients):
            (keys / str(shard)).touch()  # without TLS the keys only tell which shards there are
        for shard in range(config.rounds.cohort):
            words = ["--insecure", "--superlink", address, "--keys", str(keys), "--claims", str(folder / "claims")]
            client = [sys.executable, "-m", "fedlearn", "client", *words, "--partition", str(shard)]
            processes.enter_context(_running(folder, client))
        run = folder / "run"
        _run(address, APP, config.model_copy(update={"out": str(run)}))
        with (run / "metrics.csv").open() as file:
            rows = list(csv.DictReader(file))
    return [float(row["selection_seconds"]) + float(row["training_seconds"]) for row in rows]


def time_flower(config: RunConfig, folder: Path) -> list[float]:
    """Return the seconds of each round on plain Flower."""
    with ExitStack() as processes:
        address = _superlink(processes, folder, "flower-superlink")
        for shard in range(config.rounds.cohort):
            node = f"partition-id={shard} num-partitions={config.clients}"
            words = ["--insecure", "--superlink", address, "--port", str(free_port()), "--node-config", node]
            processes.enter_context(_running(folder, ["flower-supernode", *words]))
        seconds = folder / "seconds.json"
        _run(address, _plain_app(folder / "app"), config.model_copy(update={"out": str(seconds)}))
        rounds: list[float] = json.loads(seconds.read_text())
    return rounds


SYSTEMS: dict[str, Callable[[RunConfig, Path], list[float]]] = {"fedlearn": time_fedlearn, "flower": time_flower}


def _plain_app(folder: Path) -> Path:
    """Write a Flower App of our ClientApp and the ServerApp above."""
    folder.mkdir()
    project = (APP / "pyproject.toml").read_text()
    for ours, plain in (("server.app:app", "app:server"), ("client.app:app", "app:client")):
        project = project.replace(f'"{ours}"', f'"{plain}"')
    project = re.sub(r"^fab-include = .*$", 'fab-include = ["app.py"]', project, flags=re.MULTILINE)
    (folder / "pyproject.toml").write_text(project)
    (folder / "README.md").touch()
    lines = ["from client.app import app as client", "from experiments.speed.deployment_time import server"]
    (folder / "app.py").write_text("\n".join([*lines, '__all__ = ["client", "server"]', ""]))
    return folder


def _superlink(processes: ExitStack, folder: Path, *command: str) -> str:
    port = free_port()
    place = ["--host", "127.0.0.1", "--port", str(port), "--disable-runtime-dependency-installation"]
    processes.enter_context(_running(folder, [*command, "--insecure", *place]))
    return f"127.0.0.1:{port}"


def _run(address: str, app: Path, config: RunConfig) -> None:
    """Submit a run once all nodes are online, and wait for its end."""
    control = Control(address, None)
    _until(lambda: _online(control) >= config.rounds.cohort, PATIENCE)
    run_id = control.submit({path.name: path for path in app.iterdir()}, to_flower(config))
    _until(lambda: control.status(run_id)[0].startswith("finished"), 3600.0)
    status, details = control.status(run_id)
    control.close()
    if status != "finished:completed":
        raise RuntimeError(f"{status}: {details}")


def _online(control: Control) -> int:
    try:
        return control.online()
    except Away:
        return 0


def _until(is_true: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > end:
            raise TimeoutError(f"not so after {seconds:g} s")
        time.sleep(1)


@contextmanager
def _running(folder: Path, command: list[str]) -> Iterator[None]:
    """Run a command with its child processes until the block ends; its output goes to a file."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment["FLWR_HOME"] = str(folder / "flwr")
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, cwd=folder, env=environment, start_new_session=True
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def main() -> None:
    """Run both in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--shards", type=int, default=100, help="parts of the data, of which each client has one")
    parser.add_argument("--local-epochs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    given = {
        "clients": options.shards, "rounds.total": options.rounds, "rounds.cohort": options.clients,
        "rounds.minimum_ready": 1.0, "rounds.quorum": 1.0, "rounds.selection_window": 10.0,
        "training.local_epochs": options.local_epochs, "data.dataset": "cifar10", "evaluation.where": "none",
    }  # fmt: skip
    config = from_flower(given)
    warnings.simplefilter("ignore")  # of Flower's own imports
    figures: dict[str, list[float]] = {name: [] for name in SYSTEMS}
    for repeat in range(options.repeats):
        for name, seconds_of in SYSTEMS.items():
            with tempfile.TemporaryDirectory() as folder:
                seconds = seconds_of(config, Path(folder))
            figures[name].append(median(seconds[1:]))
            print(f"repeat {repeat + 1} {name}: {[round(each, 2) for each in seconds]}", file=sys.stderr, flush=True)
    ratios = [flower / ours for ours, flower in zip(figures["fedlearn"], figures["flower"], strict=True)]
    table = Table(
        title=f"{options.clients} clients, {options.local_epochs} local epochs on 1/{options.shards} of CIFAR-10"
    )
    for column in ("system", "s/round", "x fedlearn (min-max)"):
        table.add_column(column)
    table.add_row("fedlearn", f"{median(figures['fedlearn']):.2f}", "1")
    spread = f"{median(ratios):.1f} ({min(ratios):.1f}-{max(ratios):.1f})"
    table.add_row("flower", f"{median(figures['flower']):.2f}", spread)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
