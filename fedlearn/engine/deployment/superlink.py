"""Flower's SuperLink with a door before its Fleet API (`door.py`), behind which questions are held (`held.py`).

Takes the arguments of ``flower-superlink``.
"""

from __future__ import annotations

import os
import sys


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

    flower_superlink.run_superlink(Door, Held)


if __name__ == "__main__":
    main()
