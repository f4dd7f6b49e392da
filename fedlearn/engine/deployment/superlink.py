"""Flower's SuperLink with admission control before its Fleet API (`admission.py`), and with `long_polling.py`.

The arguments are those of ``flower-superlink``, ``--parent-pid`` as ``flower-superexec`` has it, and ``--seen``,
the file of clients' versions and clocks; without ``--database``, the state is in a temporary file.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from fedlearn.engine.processes import die_with


def main() -> None:
    """Run until stopped."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--parent-pid", type=int)
    parser.add_argument("--seen", type=Path)
    ours, arguments = parser.parse_known_args()
    die_with(ours.parent_pid)
    sys.argv = ["flower-superlink", *arguments]
    from fedlearn.flower import superlink_middleware as flower_superlink

    if flower_superlink.missing:
        print(
            f"Flower has moved {flower_superlink.missing}: bodies are read before signatures are looked at",
            file=sys.stderr,
        )
        os.execvp("flower-superlink", sys.argv)
    from fedlearn.engine.deployment.admission import Admission, Seen
    from fedlearn.engine.deployment.long_polling import LongPolling

    with TemporaryDirectory() as place:
        if not any(argument.split("=")[0] == "--database" for argument in sys.argv):
            sys.argv.append(f"--database={place}/superlink.db")
        flower_superlink.run_superlink(partial(Admission, seen=Seen(ours.seen) if ours.seen else None), LongPolling)


if __name__ == "__main__":
    main()
