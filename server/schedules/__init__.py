"""In which order the phases of a run go, and when what came of them is committed: one file a schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from fedlearn.config import RunConfig
from fedlearn.core.metric import Metric
from fedlearn.core.state import Array
from fedlearn.plugins import tables
from fedlearn.plugins.options import options_for
from fedlearn.plugins.registry import Registry

SCHEDULES = Registry(
    "rounds.schedule",
    tables.SCHEDULES,
    asks=("__call__",),
)
PREFIX = "schedule/"  # of its arrays in the checkpoint


class Schedule(Protocol):
    """One order of the phases; its class is called with the `server.run.ServerRun` that it is to carry out.

    Beside that, a class may have ``metrics``, further columns of the run's table, and ``check``, which is called with
    settings, options and what the run is made of before anything is sent (`Asynchronous.check`).
    """

    def run(self) -> None:
        """Commit every round that is still to come.

        Raises
        ------
        RunFailed
            When the run cannot go on; what was committed before is stored, as far as ``rounds.store_every`` says.
        """
        ...


def load_schedule(config: RunConfig) -> partial[Any]:
    """Return the factory of a run's schedule, with its options; call it with the `ServerRun`."""
    make: Callable[..., Any] = SCHEDULES.load(config.rounds.schedule)
    given = config.rounds.schedule_options
    options = options_for(make, given, setting="rounds.schedule_options", reserved=("run",)) if given else {}
    return partial(make, **options)


def metrics_of(make: partial[Any]) -> tuple[Metric, ...]:
    """Return the columns that a schedule adds to the run's table."""
    return tuple(getattr(make.func, "metrics", ()))


def schedule_memory(memory: Mapping[str, Array]) -> dict[str, Array]:
    """Return the schedule's arrays in a checkpoint."""
    return {name.removeprefix(PREFIX): array for name, array in memory.items() if name.startswith(PREFIX)}


def rest_of(memory: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays of a checkpoint that are not the schedule's."""
    return {name: array for name, array in memory.items() if not name.startswith(PREFIX)}
