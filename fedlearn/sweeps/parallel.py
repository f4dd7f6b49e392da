"""Lanes of a sweep: processes that make its runs side by side, each a whole run with all of its nodes.

In a small round server and workers take turns: while one of them computes, the others wait. A lane never waits, as it
is server and nodes in one process (`engine.inline`), forked from the process that workers are forked from. A run has
the bytes that it has alone, as no byte depends on the engine or on its number of workers.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import ExitStack, suppress
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from typing import Any

from fedlearn.config import RunConfig, to_flower
from fedlearn.core.errors import FedlearnError, RunFailed, error_of
from fedlearn.core.stopping import Stopped, begin, deaf_to_signals
from fedlearn.engine.embedded.forkserver import WORKER, may_have_children, start
from fedlearn.engine.inline import run
from fedlearn.engine.processes import ONE_THREAD, default_size, say_warnings

FEWEST = 4  # runs of a lane; with fewer, too many cores may idle while the last runs end
SMALL = 8  # nodes of a cohort for each core, above which a run keeps the cores busy by itself
OWN_CODE = re.compile(r":[A-Za-z_]")  # in a setting: "module:Class" is code, "drop:0.1" is none

Ended = tuple[int, FedlearnError | None]
"""The place of a run among those that were given, and the error that has ended it."""


def lanes_for(configs: Sequence[RunConfig]) -> int:
    """Return how many lanes some runs get: one for each core, or none where their engine is faster or safer.

    Lanes are for many runs with small cohorts on CPUs, without code from outside, which might end its process or hang.
    """
    lanes = default_size()
    is_worth_it = lanes > 1 and len(configs) >= FEWEST * lanes
    return lanes if is_worth_it and all(_is_small(config, lanes) for config in configs) else 0


def _is_small(config: RunConfig, cores: int) -> bool:
    engine = config.engine
    is_usual = engine.name == "embedded" and not engine.workers and engine.device in ("auto", "cpu")
    has_own_code = any(OWN_CODE.search(value) for value in to_flower(config).values() if isinstance(value, str))
    return is_usual and not has_own_code and config.goal_count <= SMALL * cores


def side_by_side(configs: Sequence[RunConfig], lanes: int) -> Generator[Ended, None, None]:
    """Make runs in lanes; yield each as it ends. What is under way when the caller stops is ended."""
    start(*{config.model.name: None for config in configs})
    waiting = deque(enumerate(configs))
    with ExitStack() as stack:
        busy: dict[Any, _Lane] = {}
        for _ in range(min(lanes, len(configs))):
            lane = _Lane()
            stack.callback(lane.close)
            lane.give(*waiting.popleft())
            busy[lane.pipe] = lane
        while busy:
            for pipe in connection.wait(list(busy)):
                lane = busy[pipe]
                ended = lane.ended()
                if waiting and not lane.is_dead:
                    lane.give(*waiting.popleft())
                else:
                    del busy[pipe]
                yield ended


class _Lane:
    """One lane, seen from the sweep."""

    def __init__(self) -> None:
        context: Any = get_context("forkserver")
        self.pipe: Connection
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), name=WORKER, daemon=True)
        with may_have_children():
            self._process.start()
        theirs.close()
        self.pipe.send(dict(os.environ) | ONE_THREAD)
        self._place = -1  # of the run that it makes
        self.is_dead = False

    def give(self, place: int, config: RunConfig) -> None:
        """Have it make a run."""
        self._place = place
        with suppress(OSError):  # it has died: so says `ended`
            self.pipe.send(config)

    def ended(self) -> Ended:
        """Return the run that has ended."""
        try:
            code, text = self.pipe.recv()
        except (EOFError, OSError):
            self.is_dead = True
            return self._place, RunFailed("its process has died; see the lines above")
        return self._place, error_of(code, text) if code else None

    def close(self) -> None:
        """End the process at once: what its run has committed is stored."""
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _serve(pipe: Connection) -> None:
    """Make the runs that come through a pipe, until the sweep closes it or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sweep answers Ctrl-C
    deaf_to_signals()
    say_warnings()
    threading.Thread(target=_die_with_the_sweep, daemon=True).start()
    with suppress(EOFError, ConnectionError):
        os.environ.update(pipe.recv())
        while True:
            pipe.send(outcome_of(pipe.recv()))


def _die_with_the_sweep() -> None:
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def outcome_of(config: RunConfig) -> tuple[int, str]:
    """Make a run in this process; return its exit code, and the reason of a failure."""
    begin()
    try:
        run(config)
    except FedlearnError as error:
        return error.exit_code, str(error)
    except Stopped as stop:  # of this run alone
        return RunFailed.exit_code, stop.reason
    return 0, ""
