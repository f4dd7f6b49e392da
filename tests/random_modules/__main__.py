"""Train random modules by fedlearn and by torch.optim, and compare.

python -m tests.random_modules --cases 2000    # a quarter of an hour; exit code 1 and a line for each that differs
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from tests.random_modules.grammar import Case


def main(cases: Annotated[int, typer.Option(min=1)] = 2000, first: Annotated[int, typer.Option(min=0)] = 0) -> None:
    """Compare some cases."""
    logging.disable(logging.WARNING)
    began, wrong = time.monotonic(), 0
    for number in range(first, first + cases):
        with TemporaryDirectory() as folder:
            try:
                why = Case(number).wrong(Path(folder))
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
        if why:
            wrong += 1
            print(f"{Case(number)}: {why}", flush=True)
    print(f"{cases} random modules, {wrong} not as torch.optim makes them, {time.monotonic() - began:.0f} seconds")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    typer.run(main)
