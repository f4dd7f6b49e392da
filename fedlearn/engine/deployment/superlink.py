"""Flower's SuperLink with a door before its Fleet API (`door.py`), behind which questions are held (`held.py`).

Takes the arguments of ``flower-superlink``; without ``--database``, what it knows is in a file that goes with it.
"""

from __future__ import annotations

import os
import sys
from tempfile import TemporaryDirectory


def main() -> None:
    """Run until stopped."""
    sys.argv = ["flower-superlink", *sys.argv[1:]]
    from fedlearn.flower import superlink as flower_superlink

    if flower_superlink.missing:
        print(
            f"Flower has moved {flower_superlink.missing}: bodies are read before signatures are looked at",
            file=sys.stderr,
        )
        os.execvp("flower-superlink", sys.argv)
    from fedlearn.engine.deployment.door import Door
    from fedlearn.engine.deployment.held import Held

    with TemporaryDirectory() as place:
        if not any(argument.split("=")[0] == "--database" for argument in sys.argv):
            sys.argv.append(f"--database={place}/superlink.db")
        flower_superlink.run_superlink(Door, Held)


if __name__ == "__main__":
    main()
