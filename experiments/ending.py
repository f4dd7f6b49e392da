"""How the command of an experiment ends."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from fedlearn.core.errors import FedlearnError
from fedlearn.core.stopping import interrupted_code


@contextmanager
def exit_codes() -> Iterator[None]:
    """End the process with one line and 130 if the block is interrupted, with an error's own exit code if it fails."""
    try:
        yield
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        sys.exit(interrupted_code())
    except FedlearnError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
