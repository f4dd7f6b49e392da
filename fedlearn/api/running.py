"""`fedlearn.run`: what ``fedlearn simulate`` does, as a function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from fedlearn.api.given import flat_settings
from fedlearn.api.guest import guest
from fedlearn.api.progress import shown
from fedlearn.api.result import Run
from fedlearn.commands.shared import Interrupted, resumable, run_settings
from fedlearn.config import RunConfig
from fedlearn.plugging.own_packages import claimed
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.kept_objects import objects_kept


def run(
    clients: int | None = None,
    *,
    data: Any = None,
    model: Any = None,
    settings: Mapping[str, Any] | None = None,
    resume: str | Path | Run | None = None,
    progress: bool = True,
    dashboard: str | None = None,
    log: str | tuple[str, ...] = (),
    **keywords: Any,
) -> Run:
    """Run a federation on this machine, and return what came of it.

    It is the run that ``fedlearn simulate`` makes of the same settings, with the same SHA-256. Whatever is not given
    has the default of the command.

    Parameters
    ----------
    clients : int, optional
        How many nodes there are; each gets its own part of the training examples.
    data : str, Dataset, TableDataset or callable, optional
        A name of ``--dataset``, a data set, or a function that makes one from the folder of data sets.
    model : str, type or callable, optional
        A name of ``--model``, a class of `torch.nn.Module`, or a function that makes a module.
    settings : mapping, optional
        Any settings by their dotted names, as ``{"training.momentum": 0.5}``; ``fedlearn settings`` lists them.
    resume : path or Run, optional
        The folder of a run to go on with; it has its settings, and code that is given again must be the same.
    progress : bool, default=True
        Show rounds as they are committed: live in a terminal or a notebook, else as lines.
    dashboard : str, optional
        Serve a live page meanwhile: ``"8765"``, or ``"HOST:PORT"``.
    log : str or tuple of str, default=()
        Also log to ``"tensorboard"`` or ``"mlflow"``.
    **keywords : any
        The flags of the command by their names, as ``rounds=5``, ``lr=0.1``, ``strategy="fedadam"``, and ``learner``;
        or any setting by its dotted name. What a setting names can be given as an object: a strategy, a learner, a
        codec or a list of its stages. What other processes can import goes by its name, other code by value.

    Returns
    -------
    Run
        Its history, its model, its folder.

    Raises
    ------
    UsageError
        If it was asked for wrongly; nothing was started.
    RunFailed
        If it could not go on; all that it had reached is stored.
    KeyboardInterrupt
        After Ctrl-C, or the stop button of a notebook: all committed rounds are stored, and `resume` goes on.

    Examples
    --------
    >>> run = fedlearn.run(clients=10, data="digits", rounds=2, progress=False)  # doctest: +SKIP
    >>> run.summary["accuracy"]  # doctest: +SKIP
    0.71
    """
    given = flat_settings({"clients": clients, "data": data, "model": model, **keywords}, settings or {})
    folder = resume.folder if isinstance(resume, Run) else Path(resume) if resume is not None else None
    config = run_settings(given, None, folder)
    listeners = (log,) if isinstance(log, str) else log
    with guest(), _python_says_how_to_go_on(Path(config.out)), resumable(Path(config.out)):
        _run(config, progress=progress, dashboard=dashboard, listeners=listeners)
    return Run(Path(config.out))


def _run(config: RunConfig, *, progress: bool, dashboard: str | None, listeners: tuple[str, ...]) -> None:
    from fedlearn.engine import load_engine
    from fedlearn.report.dashboard import beside
    from fedlearn.report.listeners import listened

    folder = RunFolder(Path(config.out))
    engine = load_engine(config.engine.name)
    with objects_kept(config), ExitStack() as around:
        around.enter_context(listened(list(listeners), folder.events, config))
        url = around.enter_context(beside(folder.path, dashboard))
        if url:
            print(f"live page: {url}")
        around.enter_context(shown(folder.events) if progress else nullcontext())
        with claimed():
            engine(config)


@contextmanager
def _python_says_how_to_go_on(folder: Path) -> Iterator[None]:
    """Raise, after Ctrl-C, what Python users expect, with the line that goes on."""
    try:
        yield
    except Interrupted:
        if (folder / "checkpoint.json").exists():
            raise KeyboardInterrupt(
                f"what was committed is stored; go on by fedlearn.run(resume={str(folder)!r})"
            ) from None
        raise KeyboardInterrupt("nothing was stored yet") from None
