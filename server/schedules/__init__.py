"""In which order the phases of a run go, and when what came of them is committed: one file a schedule."""

from __future__ import annotations

from typing import Protocol

from fedlearn.registry import Registry

SCHEDULES = Registry(
    "rounds.schedule",
    {
        "synchronous": "server.schedules.synchronous:Synchronous",
    },
    asks=("__call__",),
)


class Schedule(Protocol):
    """One order of the phases; its class is called with the `server.run.ServerRun` that it is to carry out."""

    def run(self) -> None:
        """Commit every round that is still to come.

        Raises
        ------
        RunFailed
            When the run cannot go on; everything committed before is stored.
        """
        ...
