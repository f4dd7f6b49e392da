"""The interface of an engine."""

from __future__ import annotations

from typing import Protocol

from fedlearn.config import RunConfig


class Engine(Protocol):
    """One way to execute a run."""

    def __call__(self, config: RunConfig) -> None:
        """Run ``server.app:app`` and ``client.app:app`` to the end; results lie in the run folder.

        Raises
        ------
        FedlearnError
            If the run failed, or was never started.
        """
        ...
