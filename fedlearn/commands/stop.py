"""``fedlearn stop``: end a run that goes on, from another terminal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from fedlearn.core.errors import printable

LOOK = 0.1  # seconds


def stop(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of the run, or of a sweep.")],
) -> None:
    """Stop a run or a sweep of this machine, and wait until it has ended.

    Stored rounds stay, and --resume continues to the same bytes. The run ends with exit code 0 and status
    interrupted.
    """
    from fedlearn.runs.stop_requests import ask_to_stop, is_running

    ask_to_stop(folder, "by fedlearn stop")
    while is_running(folder):
        time.sleep(LOOK)
    print(printable(f"{folder} has stopped; fedlearn runs {folder} shows its rounds"))
