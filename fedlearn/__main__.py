"""``python -m fedlearn`` and the command ``fedlearn``: all commands."""

from __future__ import annotations

import os
import signal
import sys
from threading import Timer, main_thread
from typing import TYPE_CHECKING

from fedlearn.core.stopping import begin, catch_signals, interrupted_code

if TYPE_CHECKING:
    from sys import UnraisableHookArgs


def main(arguments: list[str] | None = None, program: str = "fedlearn") -> None:
    """Run a command and end the process; a stop is one line even while the commands are still being imported."""
    sys.unraisablehook = interrupt_again
    caught = catch_signals()
    begin()
    given = sys.argv[1:] if arguments is None else arguments
    try:
        from fedlearn.engine.processes import ONE_THREAD, importing

        if given[:1] in (["simulate"], ["sweep"]) and not {"--help", "--help-all"} & {*given}:
            from fedlearn.engine.embedded.forkserver import begin_early
            from fedlearn.engine.lazy_imports import put_off

            put_off()
            os.environ.update(ONE_THREAD)
            begin_early()  # it imports while we do
        with importing():
            from fedlearn.cli import main as commands

        commands(arguments, program)
    except KeyboardInterrupt:
        from fedlearn.commands.last_words import as_json, asks_for_json

        print("interrupted", file=sys.stderr)
        if asks_for_json(given):
            print(as_json(interrupted_code(), "interrupted", None))
        sys.exit(interrupted_code())
    finally:
        for each in caught:  # the process ends as it is
            signal.signal(each, signal.SIG_IGN)


def interrupt_again(swallowed: UnraisableHookArgs) -> None:
    """Interrupt once more where Ctrl-C came in a callback, such as that of an import's lock: Python drops it there."""
    if issubclass(swallowed.exc_type, KeyboardInterrupt):
        Timer(0.05, signal.pthread_kill, [main_thread().ident, signal.SIGINT]).start()  # when the callback has ended
    else:
        sys.__unraisablehook__(swallowed)


if __name__ == "__main__":
    main(program="python -m fedlearn")
