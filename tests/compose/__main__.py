"""Start docker-compose.yml without Docker, from a terminal: ``python -m tests.compose up``."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from tests.compose import lock as locking
from tests.compose.file import read_project
from tests.compose.stack import FILE, Stack, own_services

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)
Variables = Annotated[list[str] | None, typer.Option("--set", help="A variable of the file, as NAME=VALUE.")]


def variables(sets: list[str] | None) -> dict[str, str]:
    """Return the environment's variables, replaced or joined by the NAME=VALUE arguments."""
    return {**os.environ, **dict(one.partition("=")[::2] for one in sets or [])}


@app.command()
def up(
    job: Annotated[str, typer.Option(help="Stop all when this service ends, and exit with its code.")] = "job",
    clients: Annotated[int, typer.Option(help="How many clients.")] = 3,
    sets: Variables = None,
    folder: Annotated[
        Path | None, typer.Option(help="For volumes and logs; a new one in the temporary folder.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Give up after this long.")] = 3600.0,
) -> None:
    """Start all services as plain processes, print what happens and what the job prints, and exit as the job does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = folder.resolve() if folder else Path(tempfile.mkdtemp(prefix="compose-"))
    print(f"volumes and logs: {folder}", flush=True)
    services = own_services(variables([f"CLIENTS={clients}", *(sets or [])]))
    with Stack(services, folder, echo=lambda note: print(note, file=sys.stderr, flush=True)) as stack:
        code = _follow(stack, job, seconds)
    sys.exit(code)


@app.command()
def lock(sets: Variables = None) -> None:
    """Write the requirements file of the image: pip resolves it, and each package stands with its checksums."""
    (build,) = (service.build for service in read_project(FILE, variables(sets)).values() if service.build)
    locking.FILE.write_text(locking.locked(build["args"]["TORCH_INDEX"]), encoding="utf-8")


def _follow(stack: Stack, job: str, seconds: float) -> int:
    """Print the job's log while it grows; return the job's exit code."""
    container, seen = stack[job], 0

    def over() -> bool:
        nonlocal seen
        ended = container.status == "exited"
        text = container.read_log()
        print(text[seen:], end="", flush=True)
        seen = len(text)
        return ended

    stack.until(over, f"the end of {job}", seconds)
    return -1 if container.code is None else container.code


if __name__ == "__main__":
    app()
