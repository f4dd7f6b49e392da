"""Flower's SuperNode, asking its SuperLink for messages up to ten times a second instead of every three seconds.

Takes the arguments of ``flower-supernode``, ``--parent-pid`` as ``flower-superexec`` does, and ``--bell``, the file
descriptor of a pipe into which it writes a byte when a message has come.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module

from fedlearn.engine.processes import die_with

VERSION_HEADER = "fedlearn-version"


def main() -> None:
    """Run until stopped."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--parent-pid", type=int)
    parser.add_argument("--bell", type=int)
    ours, arguments = parser.parse_known_args()
    die_with(ours.parent_pid)
    sys.argv = ["flower-supernode", *arguments]
    from fedlearn.flower import prompt_supernode

    if prompt_supernode.missing:
        print(f"Flower has moved {prompt_supernode.missing}: messages are asked for every 3 s", file=sys.stderr)
        os.execvp("flower-supernode", sys.argv)
    prompt_supernode.run_supernode(ours.bell, headers={VERSION_HEADER: import_module("fedlearn").__version__})


if __name__ == "__main__":
    main()
