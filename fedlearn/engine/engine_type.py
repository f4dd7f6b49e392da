"""The interface of an engine."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # imported before the process that workers are forked from is begun: pydantic would hold that up
    from fedlearn.config import RunConfig


@dataclass(frozen=True, slots=True)
class Engine:
    """One way to execute a run.

    Parameters
    ----------
    run
        Runs ``server.app:app`` and ``client.app:app`` to the end; results lie in the run folder. Its parameters are
        the settings and, by keyword, the engine's own options (``engine.options``).
    stacks
        Whether the engine trains several nodes in one computation (``training.stack``).
    forks
        Whether workers are forked from the process that the command begins ahead of everything else.
    warm
        Returns a context manager that gives a `run` for many runs, which share their processes. None: each run of a
        sweep starts processes of its own.
    """

    run: Callable[..., None]
    stacks: bool = False
    forks: bool = False
    warm: Callable[[], AbstractContextManager[Callable[..., None]]] | None = None

    def __call__(self, config: RunConfig) -> None:
        """Execute a run of these settings.

        Raises
        ------
        FedlearnError
            If the run failed, or was never started.
        """
        return self.run(config, **self.options(config))

    def options(self, config: RunConfig) -> dict[str, Any]:
        """Return ``engine.options`` as keyword arguments of `run`; raise SettingError if one is wrong."""
        if not config.engine.options:
            return {}
        from fedlearn.plugins.options import options_for  # imports pydantic, see above

        settings, *_ = inspect.signature(self.run).parameters
        return options_for(self.run, config.engine.options, setting="engine.options", reserved=(settings,))

    @contextmanager
    def kept_warm(self) -> Iterator[Engine]:
        """Give an engine that executes one run after another, with the same processes where it can."""
        if self.warm is None:
            yield self
        else:
            with self.warm() as run:
                yield replace(self, run=run)
