"""What an executor keeps loaded for its tasks: libraries, the client app, the data and the model of the run."""

from __future__ import annotations

import io
import logging
import os
import tomllib
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from importlib.machinery import all_suffixes
from typing import Any

from fedlearn.engine.apps import load_client_app
from fedlearn.engine.processes import ONE_THREAD, PRELOAD_TORCH
from fedlearn.flower.runtime import Input, import_for_server_tasks
from fedlearn.plugins.own_packages import give_up, own_files
from fedlearn.plugins.registry import load_reference
from fedlearn.plugins.tables import CLIENT_APP, CLIENT_PREPARE

ABOUT = "pyproject.toml"
WHEN_USED = ("numpy.random", "torch.nested._internal.nested_tensor")  # numpy and torch import these only then

log = logging.getLogger("executor")


def import_libraries(*, server: bool) -> None:
    """Import the modules of every task."""
    os.environ.update(ONE_THREAD)
    import_module(PRELOAD_TORCH)
    for name in WHEN_USED:
        with suppress(ImportError):  # a module that was moved is imported by each task
            import_module(name)
    if server:
        import_for_server_tasks()
    else:
        load_client_app()


class Learned:
    """Facts from earlier tasks: which bundles hold the app that is imported here, and the settings of the run."""

    def __init__(self) -> None:
        self.installed: dict[str, str] = {}  # SHA-256 of a bundle's bytes -> where a task has installed it
        self._files = _hashes_of_our_files()  # at the time of import: the files on the disk may change later
        self._ours: dict[str, bool] = {}  # hash of a bundle -> whether its app is the one imported here
        self._run_config: Mapping[str, Any] | None = None
        self._is_warm_for: Mapping[str, Any] | None = None

    def is_ours(self, given: Input) -> bool:
        """Return whether a bundle's Python files are those of this installation, byte for byte."""
        known = self._ours.get(given.fab_hash)
        if known is not None:
            return known
        with zipfile.ZipFile(io.BytesIO(given.fab)) as bundle:
            names = [name for name in bundle.namelist() if name.endswith(".py")]
            return all(self._files.get(name) == sha256(bundle.read(name)).digest() for name in names)

    def is_nothing_else(self, given: Input) -> bool:
        """Return whether a bundle would run the app that is imported here, and brings no other code along.

        The bundle's bytes are read each time, as the server could send a wrong hash.
        """
        with zipfile.ZipFile(io.BytesIO(given.fab)) as bundle:
            code = [name for name in bundle.namelist() if name.endswith(tuple(all_suffixes()))]
            if not all(self._files.get(name) == sha256(bundle.read(name)).digest() for name in code):
                return False
            try:
                about = tomllib.loads(bundle.read(ABOUT).decode())
                return bool(about["tool"]["flwr"]["app"]["components"]["clientapp"] == CLIENT_APP)
            except (KeyError, ValueError, TypeError):
                return False

    def learn(self, fab_hash: str, *, is_ours: bool, run_config: Mapping[str, Any]) -> bool:
        """Remember the bundle and settings of a task; return whether `warm_up` should be called."""
        self._ours[fab_hash] = is_ours
        if is_ours:
            self._run_config = run_config
        return is_ours and run_config != self._is_warm_for

    def warm_up(self) -> bool:
        """Load data and model of the run, so that later tasks have them; return whether that was possible."""
        assert self._run_config is not None
        self._is_warm_for = self._run_config
        try:
            load_reference(CLIENT_PREPARE)(self._run_config)
        except Exception as error:  # the tasks of this run fail in the same way, and their replies say so
            log.warning("cannot load the run's data and model ahead: %s", error)
            return False
        return True


def _hashes_of_our_files() -> dict[str, bytes]:
    """Return the SHA-256 of every Python file of our packages, by its name in a bundle."""
    return {name: sha256(path.read_bytes()).digest() for name, path in own_files().items()}


def forget_ours() -> None:
    """Forget the imported modules of this installation and its finders, so that the bundle's own are imported."""
    give_up()
