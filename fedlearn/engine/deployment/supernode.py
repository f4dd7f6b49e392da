"""Flower's SuperNode, asking its SuperLink for messages up to ten times a second instead of every three seconds.

Takes the arguments of ``flower-supernode``, and ``--parent-pid`` as ``flower-superexec`` does.
"""

from __future__ import annotations

import os
import sys

from fedlearn.engine.processes import die_with


def main() -> None:
    """Run until stopped."""
    arguments = sys.argv[1:]
    if "--parent-pid" in arguments:
        place = arguments.index("--parent-pid")
        die_with(int(arguments[place + 1]))
        del arguments[place : place + 2]
    sys.argv = ["flower-supernode", *arguments]
    from fedlearn.flower import runtime as flower_runtime

    if flower_runtime.missing:
        print(f"Flower has moved {flower_runtime.missing}: messages are asked for every 3 s", file=sys.stderr)
        os.execvp("flower-supernode", sys.argv)
    flower_runtime.run_supernode()


if __name__ == "__main__":
    main()
