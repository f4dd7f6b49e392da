"""A folder with a Flower App: its pyproject.toml, read as ``flwr run`` reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from flwr.common.config import get_fused_config_from_dir, get_project_config, parse_config_args

from fedlearn.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class FlowerApp:
    """A Flower App in a folder.

    Parameters
    ----------
    server, client
        References to the ServerApp and the ClientApp, as ``"quickstart.server_app:app"``.
    run_config
        The settings in ``context.run_config``: the app's own, with overrides replaced.
    """

    name: str
    folder: Path
    server: str
    client: str
    run_config: dict[str, Any]


def read_app(folder: Path, overrides: Sequence[str] = ()) -> FlowerApp:
    """Return the app in a folder, with settings as ``flwr run --run-config`` takes them.

    Raises
    ------
    UsageError
        If there is no app, Flower refuses its pyproject.toml, or the app has no such setting.
    """
    folder = folder.resolve()
    try:
        project = get_project_config(folder)
        run_config = get_fused_config_from_dir(folder, parse_config_args(list(overrides)))
    except FileNotFoundError:
        raise UsageError(f"{folder}: it is not the folder of a Flower App: it has no pyproject.toml") from None
    except (ValueError, OSError, click.ClickException) as error:
        said = error.message if isinstance(error, click.ClickException) else str(error)
        raise UsageError(f"{folder}: {' '.join(said.split())}") from None
    components = project["tool"]["flwr"]["app"]["components"]
    return FlowerApp(
        name=str(project["project"]["name"]),
        folder=folder,
        server=components["serverapp"],
        client=components["clientapp"],
        run_config=dict(run_config),
    )
