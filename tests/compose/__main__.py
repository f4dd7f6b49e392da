"""Start docker-compose.yml without Docker, from a terminal: ``python -m tests.compose up``."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
import yaml

from tests.compose import namespaces
from tests.compose.file import filled_tree, read_project
from tests.compose.image import build_image
from tests.compose.lock import FILE as REQUIREMENTS
from tests.compose.lock import locked
from tests.compose.schema import errors_of
from tests.compose.stack import FILE, Stack, open_stack

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)


@app.command()
def up(
    job: Annotated[str, typer.Option(help="Stop all when this service ends, and exit with its code.")] = "job",
    clients: Annotated[int, typer.Option(help="How many clients.")] = 3,
    plain: Annotated[bool, typer.Option(help="Plain processes, even where root allows namespaces.")] = False,
    sets: Annotated[list[str] | None, typer.Option("--set", help="A variable of the file, as NAME=VALUE.")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="For volumes and logs; a new one in the temporary folder.")
    ] = None,
    root: Annotated[Path | None, typer.Option(help="Root file system in which the image's steps were run.")] = None,
    seconds: Annotated[float, typer.Option(help="Give up after this long.")] = 3600.0,
) -> None:
    """Start all services, print what happens and what the job says, and exit as the job does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = folder.resolve() if folder else Path(tempfile.mkdtemp(prefix="compose-"))
    given = dict(one.partition("=")[::2] for one in sets or [])
    variables = {**os.environ, "CLIENTS": str(clients), **given}
    why_not = "asked for" if plain else namespaces.why_not()
    print(f"{'plain processes (' + why_not + ')' if why_not else 'namespaces'}; volumes and logs: {folder}", flush=True)
    with open_stack(folder, variables=variables, plain=bool(why_not), root=root, echo=_say) as stack:
        code = _follow(stack, job, seconds)
    sys.exit(code)


@app.command()
def build(
    root: Annotated[
        Path, typer.Argument(help="A Debian root file system with Python, as `debootstrap` and apt make it.")
    ],
    sets: Annotated[list[str] | None, typer.Option("--set", help="A variable of the file, as NAME=VALUE.")] = None,
) -> None:
    """Run every step of the image's Dockerfile in a root file system that stands for its FROM; needs root."""
    given = dict(one.partition("=")[::2] for one in sets or [])
    for service in read_project(FILE, {**os.environ, **given}).values():
        if service.build:
            build_image(service.build, root, root, with_run=True)
            return


@app.command()
def config(
    sets: Annotated[list[str] | None, typer.Option("--set", help="A variable of the file, as NAME=VALUE.")] = None,
) -> None:
    """Check the file against the schema, and print it with its variables put in."""
    tree = yaml.safe_load(FILE.read_text())
    for error in errors_of(tree):
        print(error, file=sys.stderr)
    given = dict(one.partition("=")[::2] for one in sets or [])
    print(yaml.safe_dump(filled_tree(tree, {**os.environ, **given}), sort_keys=False), end="")
    sys.exit(1 if errors_of(tree) else 0)


@app.command()
def lock(
    sets: Annotated[list[str] | None, typer.Option("--set", help="A variable of the file, as NAME=VALUE.")] = None,
) -> None:
    """Write the requirements file of the image: pip resolves it, and each package stands with its checksums."""
    given = dict(one.partition("=")[::2] for one in sets or [])
    (build,) = (service.build for service in read_project(FILE, {**os.environ, **given}).values() if service.build)
    REQUIREMENTS.write_text(locked(build["args"]["TORCH_INDEX"]), encoding="utf-8")


def _follow(stack: Stack, job: str, seconds: float) -> int:
    """Print the job's log while it grows; return its exit code."""
    container, seen = stack[job], 0

    def over() -> bool:
        nonlocal seen
        text = container.read_log()
        print(text[seen:], end="", flush=True)
        seen = len(text)
        return container.status == "exited"

    stack.until(over, f"the end of {job}", seconds)
    over()
    return -1 if container.code is None else container.code


def _say(note: str) -> None:
    print(note, file=sys.stderr, flush=True)


if __name__ == "__main__":
    app()
