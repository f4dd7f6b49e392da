"""`fedlearn.run`: what ``fedlearn simulate`` does, as a function."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Unpack

from fedlearn.api.given import flat_settings
from fedlearn.api.isolated_call import guest
from fedlearn.api.keywords import Keywords
from fedlearn.api.progress import shown
from fedlearn.api.result import Run
from fedlearn.api.spelled import as_called
from fedlearn.commands.run_once import run_once
from fedlearn.commands.shared import Interrupted, run_settings
from fedlearn.commands.unused_settings import say_unread
from fedlearn.core.stopping import begin, signals_caught
from fedlearn.engine.embedded.forkserver import begin_early
from fedlearn.runs.code_identity import accept_code as accept
from fedlearn.runs.file_names import CHECKPOINT

CTRL_C = 130  # its exit code

log = logging.getLogger("fedlearn")


def run(
    clients: int | None = None,
    *,
    data: Any = None,
    model: Any = None,
    settings: Mapping[str, Any] | None = None,
    resume: str | Path | Run | None = None,
    progress: bool = True,
    dashboard: str | None = None,
    log: Any = (),
    accept_code: bool = False,
    **keywords: Unpack[Keywords],
) -> Run:
    """Run a federation on this machine, and return the run with its results.

    The run is the one that ``fedlearn simulate`` makes of the same settings, with the same SHA-256. Settings that are
    not given have the defaults of the command.

    Parameters
    ----------
    clients : int, optional
        How many nodes there are; each gets its own part of the training examples.
    data : str, path, Dataset, callable or the user's own objects, optional
        A name of ``--dataset``, a data set, or a function that makes one from the folder of data sets; or what
        `fedlearn.data.from_any` takes: ``(X, y)``, ``(X, y, X_test, y_test)``, ``(frame, "COLUMN")``, data sets of
        torch, scikit-learn and the library `datasets`, a DataLoader, or a dict that gives the data of each node.
    model : str, type or callable, optional
        A name of ``--model``, a class of `torch.nn.Module`, or a function that makes a module.
    settings : mapping, optional
        Any settings by their dotted names, as ``{"training.momentum": 0.5}``; ``fedlearn settings`` lists them.
    resume : path or Run, optional
        A run to go on with, or its folder. The run keeps its settings, and code that is given again must be the same.
    progress : bool, default=True
        Show rounds as they are committed: live in a terminal or a notebook, else as lines.
    dashboard : str, optional
        Serve a live page as long as the run goes on: ``"8765"``, or ``"HOST:PORT"``.
    log : str, class, object, or list of these, default=()
        Also log to ``"tensorboard"``, ``"mlflow"`` or ``"wandb"``, or to a listener of your own: its class, which is
        called with the run folder and the settings, or an object with ``take(event)`` and ``close()``.
    accept_code : bool, default=False
        Go on with a run though own code that its settings name was changed; its results say so.
    **keywords : any
        The flags of the command by their names, as ``rounds=5``, ``lr=0.1``, ``strategy="fedadam"``, and ``learner``;
        or any setting by its dotted name. A plugin can be given by its name or as an object: a strategy, a learner, a
        codec or a list of its stages. Objects that other processes can import are passed by name, others by value.
        ``initial`` takes a run or a file of a model to begin with, ``baseline`` is ``"central"`` or ``"local"``.

    Returns
    -------
    Run
        Its history, its model, its folder.

    Raises
    ------
    UsageError
        If a setting is wrong; no run was started.
    RunFailed
        If the run could not go on; all rounds that were committed are stored.
    KeyboardInterrupt
        After Ctrl-C, or the stop button of a notebook: all committed rounds are stored, and `resume` goes on.

    Examples
    --------
    >>> run = fedlearn.run(clients=3, data="digits", model="linear", rounds=2, engine="inline", progress=False)
    >>> run.summary["status"], len(run.history)
    ('completed', 2)
    """
    folder = resume.folder if isinstance(resume, Run) else Path(resume) if resume is not None else None
    called: dict[str, Any] = {"clients": clients, "data": data, "model": model, **keywords}
    begin()
    with as_called(called), guest(), signals_caught():
        if resume is None and not {"engine", "engine.name"} & {*called, *(settings or {})}:
            begin_early()  # the usual engine's: its process imports while we do
        given = flat_settings(called, settings or {})
        config = run_settings(given, [], folder)
        if accept_code and folder is not None:
            accept(folder, config)
        if progress:
            say_unread(given, config)
        made = Path(config.out)
        way = f"resume by fedlearn.run(resume={str(made)!r})"
        with python_says_how_to_go_on(way, is_stored=(made / CHECKPOINT).exists):
            run_once(
                config,
                is_new=folder is None,
                log=log if isinstance(log, list | tuple) else () if log is None else (log,),
                dashboard=dashboard,
                show=shown if progress else None,
            )
    return Run(made)


@contextmanager
def python_says_how_to_go_on(way: str, *, is_stored: Callable[[], bool]) -> Iterator[None]:
    """Raise KeyboardInterrupt after Ctrl-C, with the call that goes on; a stop that was wanted is none.

    SIGTERM and SIGHUP still end the process, in order.
    """
    try:
        yield
    except Interrupted as error:
        if error.is_wanted:
            log.warning("%s: %s", str(error).partition(";")[0], way)
        elif error.exit_code != CTRL_C:
            print(f"{str(error).partition(';')[0]}; {way}" if is_stored() else str(error), file=sys.stderr)
            raise SystemExit(error.exit_code) from None
        else:
            said = f"completed rounds are stored; {way}" if is_stored() else "no round was stored yet"
            raise KeyboardInterrupt(said) from None
