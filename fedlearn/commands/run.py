"""``fedlearn run``: any Flower App on our engine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fedlearn.commands.shared import Interrupted
from fedlearn.core.errors import RunFailed


def run(
    app: Annotated[Path, typer.Argument(metavar="APP_FOLDER", help="The folder with the app's pyproject.toml.")],
    run_config: Annotated[
        list[str] | None,
        typer.Option(
            "--run-config", "-c", metavar="KEY=VALUE", help="Settings of the app, as `flwr run -c` takes them: "
            "'num-server-rounds=5 lr=0.1', or a TOML file; may be repeated.",
        ),
    ] = None,
    clients: Annotated[int, typer.Option(metavar="N", min=1, max=1_000_000, help="Number of clients.")] = 10,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Random seed.")] = 1,
    workers: Annotated[
        int, typer.Option(metavar="N", min=0, max=4096, help="Worker processes; 0 starts one for each core.")
    ] = 0,
) -> None:  # fmt: skip
    """Run any Flower App, unchanged, on worker processes of this machine instead of Flower's Ray simulation.

    Its server app, strategy and client app run unchanged. There is no run folder, no validation and no --resume:
    those belong to the rounds of `fedlearn simulate`.
    """
    from fedlearn.engine.embedded.flower_app import run_app
    from fedlearn.flower.flower_apps import read_app

    found = read_app(app, run_config or ())
    _say(
        f"{found.name}: {found.server} and {found.client} on {clients} clients, seed {seed}; rounds and strategy are "
        "the app's own, the engine is fedlearn's"
    )
    try:
        result = run_app(found, clients=clients, seed=seed, workers=workers)
    except KeyboardInterrupt as stop:
        raise Interrupted(stop, "; what the app has written itself is all that is left") from None
    _say(f"{result.messages} messages in {result.seconds:.1f} s, {result.failed} failed")
    if result.failed:
        _say(f"first failure: {' '.join(result.why_failed.split())[:300]}")
    if result.notice:
        _say(f"NOTE: {result.notice}")
    if result.arrays_sha256:
        _say(f"SHA-256 of all arrays that the clients sent: {result.arrays_sha256}")
    if result.messages and result.failed == result.messages:
        raise RunFailed(f"no client has answered any message; {' '.join(result.why_failed.split())[:300]}")


def _say(line: str) -> None:
    """Print a line of ours after the output of the app."""
    sys.stdout.flush()
    print(f"fedlearn: {line}", flush=True)
