"""``python -m fedlearn`` and the command ``fedlearn``: all commands."""

from __future__ import annotations

import sys

INTERRUPTED = 130  # what a shell expects of a command that was ended by Ctrl-C


def main(arguments: list[str] | None = None, program: str = "fedlearn") -> None:
    """Run a command and end the process; Ctrl-C is one line even while the commands are still being imported."""
    try:
        from fedlearn.cli import main as commands

        commands(arguments, program)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main(program="python -m fedlearn")
