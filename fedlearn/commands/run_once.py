"""One run from its settings to its summary, as ``fedlearn simulate`` and `fedlearn.run` both make it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from fedlearn.commands.shared import resumable
from fedlearn.config import RunConfig
from fedlearn.core.errors import RunFailed
from fedlearn.engine import ENGINES
from fedlearn.engine.embedded.forkserver import end_unused
from fedlearn.engine.session import engine_of
from fedlearn.plugins.own_packages import claimed
from fedlearn.plugins.registry import call_plugin
from fedlearn.report.listeners import Named, listened
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.kept_objects import objects_kept


def run_once(
    config: RunConfig,
    *,
    is_new: bool,
    log: Sequence[Named] = (),
    dashboard: str | None = None,
    show: Callable[[Path], AbstractContextManager[None]] | None = None,
    say: Callable[[str], None] = print,
) -> RunFolder:
    """Make a run, or go on with one; return its folder, which holds a summary.

    Parameters
    ----------
    is_new
        Whether the run is begun now: its folder is removed if nothing was stored in it.
    log
        Listeners: names (``--log``), classes or objects.
    dashboard
        The address of a live page, which is served as long as the run goes on.
    show
        Shows the run with this event log as long as a block lasts.
    say
        Shows one line: where the live page is.

    Raises
    ------
    FedlearnError
        If the run failed, or was never started; `Interrupted` after Ctrl-C.
    """
    folder = RunFolder(Path(config.out))
    with resumable(folder.path, is_new=is_new), objects_kept(config), ExitStack() as around:
        engine = engine_of(config.engine.name)
        if not engine.forks:
            end_unused()
        around.enter_context(listened(log, folder, config))
        if dashboard is not None:
            from fedlearn.report.dashboard import beside

            say(f"live page: {around.enter_context(beside(folder.path, dashboard))}")
        if show is not None:
            around.enter_context(show(folder.events))
        with claimed():
            if config.engine.name in ENGINES:
                engine(config)
            else:
                call_plugin("engine.name", config.engine.name, engine, config)
        if not folder.has_summary:
            raise RunFailed(f"engine.name = {config.engine.name!r} has run, and left no summary in {folder.path}")
    return folder
