"""Flower's apps, found by name: fedlearn's own, as the kernel imports no `server` and `client`; and foreign ones."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from fedlearn.core.errors import UsageError
from fedlearn.core.seeding import seed_for
from fedlearn.flower import ClientAppCallable
from fedlearn.plugins.generators import seeded_globals
from fedlearn.plugins.own_packages import claim
from fedlearn.plugins.registry import load_reference
from fedlearn.plugins.tables import CLIENT_APP, CLIENT_MANY, SERVER_APP

IMPORTING = "import of a foreign app"  # purpose of the seed while the modules of a foreign app are imported


def load_server_app() -> ServerApp:
    """Return ``server.app:app``."""
    app: ServerApp = _load(SERVER_APP, ServerApp)
    return app


def load_client_app(reference: str = CLIENT_APP) -> ClientApp:
    """Return ``client.app:app``, or another app of the same checkout."""
    app: ClientApp = _load(reference, ClientApp)
    return app


def load_many() -> Callable[[Sequence[tuple[Message, Context]]], Iterator[Message | BaseException]]:
    """Return what answers the training messages of several nodes at once, as ``client.app:app`` answers each."""
    claim()
    function: Callable[[Sequence[tuple[Message, Context]]], Iterator[Message | BaseException]]
    function = load_reference(CLIENT_MANY)
    return function


def load_app(reference: str, kind: type[Any], *, folder: Path) -> Any:
    """Return a foreign app, from a folder that goes before all others, as under ``flwr run``.

    Raises
    ------
    UsageError
        If the app does not exist, is of another kind, or raises when it is imported.
    """
    if str(folder) not in sys.path[:1]:
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
    try:
        app = load_reference(reference)
    except Exception as error:  # any error that foreign code raises when it is imported
        raise UsageError(f"{reference} of {folder} cannot be loaded: {type(error).__name__}: {error}") from error
    return _checked(app, reference, kind)


def load_seeded_client(reference: str, *, folder: Path, seed: int) -> ClientAppCallable:
    """Return a foreign ClientApp, which seeds the global generators before each message.

    The seed depends on the run's seed and on the message's id, which a grid for foreign apps makes from the node and
    the number of its messages before.
    """
    with seeded_globals(seed_for(seed, purpose=IMPORTING)):
        app: ClientApp = load_app(reference, ClientApp, folder=folder)

    def seeded(message: Message, context: Context) -> Message:
        with seeded_globals(seed_for(seed, purpose=f"message {message.metadata.message_id}")):
            return app(message, context)

    return seeded


def _load(reference: str, kind: type[Any]) -> Any:
    """Return an app, after a check that its package is fedlearn's and not another one of the same name."""
    claim()  # a foreign app may have modules of the same names, which `load_app` loads
    package = importlib.import_module(reference.partition(":")[0].partition(".")[0])
    ours = Path(__file__).resolve().parents[2]
    found = Path(package.__file__ or "").resolve()
    if not found.is_relative_to(ours):
        raise UsageError(
            f"the package {package.__name__!r} was found at {found.parent}, not at {ours}: another installed "
            "distribution has the same name; start from the folder of fedlearn or uninstall that one"
        )
    return _checked(load_reference(reference), reference, kind)


def _checked(app: Any, reference: str, kind: type[Any]) -> Any:
    if not isinstance(app, kind):
        raise UsageError(f"{reference} is a {type(app).__name__}, expected flwr's {kind.__name__}")
    return app
