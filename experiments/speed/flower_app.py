"""Time an unchanged app of Flower's documentation: `fedlearn run` beside `flwr run` with Ray.

    python -m experiments.speed.flower_app --clients 10 --rounds 6 --repeats 3

The app is docs/howto/quickstart_app: FedAvg, a small CNN, training and evaluation on every node. Both commands run the
same folder with the same settings, in turns. The server app prints the end of each round; a repeat's figure is the mean
of the rounds after the first, which pays for imports and Ray. The whole command is timed, too. For Flower no
dependencies are installed, which by default takes seconds more, and its local SuperLink is started and ended outside of
the timed part.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import psutil

from fedlearn.engine.processes import free_port

APP = Path(__file__).parents[2] / "docs" / "howto" / "quickstart_app"
ENDED = re.compile(r"round=(\d+) at=([\d.]+)")


def ours(clients: int, rounds: int, data: str) -> list[str]:
    """Return the command of fedlearn."""
    settings = f"num-server-rounds={rounds} data='{data}'"
    return [sys.executable, "-m", "fedlearn", "run", str(APP), "--clients", str(clients), "-c", settings]


def flowers(clients: int, rounds: int, data: str) -> list[str]:
    """Return the command of Flower, with one core for each client, as in ours."""
    federation = f"num-supernodes={clients} client-resources-num-cpus=1 client-resources-num-gpus=0.0"
    settings = f"num-server-rounds={rounds} data='{data}'"
    flwr = str(Path(sys.executable).with_name("flwr"))
    return [flwr, "run", str(APP), "local", "--stream", "--federation-config", federation, "-c", settings]


def timed(command: list[str], rounds: int) -> tuple[float, float, str]:
    """Return seconds per round after the first, seconds in all, and the SHA-256 that our command prints."""
    with tempfile.TemporaryDirectory() as home, _superlink(Path(home), "flwr" in Path(command[0]).name):
        begun = time.monotonic()
        done = subprocess.run(
            command, cwd=home, env=_environment(Path(home)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=False,
        )  # fmt: skip
        whole = time.monotonic() - begun
    ends = {int(number): float(at) for number, at in ENDED.findall(done.stdout)}
    if ends.keys() != set(range(rounds + 1)):
        raise SystemExit(f"{' '.join(command)} has not run to its end:\n{done.stdout[-3000:]}")
    sha = re.search(r"SHA-256.*: (\w{64})", done.stdout)
    return (ends[rounds] - ends[1]) / (rounds - 1), whole, sha[1] if sha else ""


@contextmanager
def _superlink(home: Path, is_wanted: bool) -> Iterator[None]:
    """Keep a local SuperLink running; ``flwr run`` would start one if none answers, and give up after 15 s."""
    if not is_wanted:
        yield
        return
    port = free_port()
    (home / "config.toml").write_text(f'[superlink.local]\naddress = "127.0.0.1:{port}"\ninsecure = true\n')
    program = str(Path(sys.executable).with_name("flower-superlink"))
    command = [program, "--insecure", "--simulation", "--isolation", "subprocess", "--host", "127.0.0.1"]
    with subprocess.Popen(
        [*command, "--port", str(port)], cwd=home, env=_environment(home), stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as superlink:  # fmt: skip
        try:
            _wait_for(port, superlink)
            yield
        finally:
            first = psutil.Process(superlink.pid)
            for process in [*first.children(recursive=True), first]:
                with suppress(psutil.Error):
                    process.kill()


def _wait_for(port: int, superlink: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 300
    while superlink.poll() is None and time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.2)
    raise SystemExit("Flower's SuperLink did not start")


def _environment(home: Path) -> dict[str, str]:
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    alone = {"FLWR_HOME": str(home), "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1", "RAY_worker_niceness": "0"}
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # Flower starts its programs by name
    return os.environ | quiet | alone | {"PATH": programs}


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", default="digits", help="or a Parquet file in the form of CIFAR-10")
    arguments = parser.parse_args()
    size = (arguments.clients, arguments.rounds, arguments.data)
    pairs = []
    for repeat in range(arguments.repeats):
        mine = timed(ours(*size), arguments.rounds)
        theirs = timed(flowers(*size), arguments.rounds)
        pairs.append((mine, theirs))
        print(
            f"repeat={repeat} fedlearn: {mine[0]:.3f} s a round, {mine[1]:.1f} s in all, SHA-256 {mine[2][:16]} | "
            f"flwr run: {theirs[0]:.3f} s a round, {theirs[1]:.1f} s in all", flush=True,
        )  # fmt: skip
    a_round = [theirs[0] / mine[0] for mine, theirs in pairs]
    in_all = [theirs[1] / mine[1] for mine, theirs in pairs]
    print(f"flwr run / fedlearn run, a round: {median(a_round):.2f} ({min(a_round):.2f}-{max(a_round):.2f})")
    print(f"flwr run / fedlearn run, in all: {median(in_all):.2f} ({min(in_all):.2f}-{max(in_all):.2f})")
    print(f"same SHA-256 in all runs of ours: {len({mine[2] for mine, _ in pairs}) == 1}")


if __name__ == "__main__":
    main()
