"""The two apps, found by name: the kernel imports neither `server` nor `client`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from fedlearn.errors import UsageError
from fedlearn.registry import load_reference

SERVER_APP = "server.app:app"
CLIENT_APP = "client.app:app"


def load_server_app() -> ServerApp:
    """Return ``server.app:app``."""
    app: ServerApp = _load(SERVER_APP, ServerApp)
    return app


def load_client_app(reference: str = CLIENT_APP) -> ClientApp:
    """Return ``client.app:app``, or another app of the same checkout."""
    app: ClientApp = _load(reference, ClientApp)
    return app


def _load(reference: str, kind: type[Any]) -> Any:
    """Return an app, after a look at whether the package is ours and not another one of the same name."""
    package = import_module(reference.partition(":")[0].partition(".")[0])
    ours = Path(__file__).resolve().parents[2]
    found = Path(package.__file__ or "").resolve()
    if not found.is_relative_to(ours):
        raise UsageError(
            f"the package {package.__name__!r} was found at {found.parent}, not at {ours}: another installed "
            "distribution has the same name; start from the folder of fedlearn or uninstall that one"
        )
    app = load_reference(reference)
    if not isinstance(app, kind):
        raise UsageError(f"{reference} is no flwr {kind.__name__}")
    return app
