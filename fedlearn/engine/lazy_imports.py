"""Modules that run when one of their names is first read: most runs never read one.

Importing Flower also imports its older interface, its secure aggregation and an HTTP client; importing torch also
imports its exporter. No process of a simulation uses them, nor what is listed of secure sums, where there are none.
Together they are a tenth of the CPU seconds of a short run, in the engine's process and in the one that all workers are
forked from.

A module put off here is in `sys.modules`, has its file and its path, and a submodule of it can be imported, without
its code being run. Reading any other name runs the code, as an import would have done. This is for fedlearn's own
processes alone. Without it every run has the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import Any

SELDOM_READ = frozenset({
    "flwr.agentapp", "flwr.client.mod", "flwr.clientapp.mod", "flwr.server",
    "google.protobuf.text_format", "grpc.aio", "httpx",
    "torch.distributions", "torch.export",
    "client.secure_sums.secure_node", "server.features.secure_sums.collect",  # of secure sums
    "fedlearn.secure.key_agreement", "fedlearn.secure.level", "fedlearn.secure.demands",
})  # fmt: skip

_running: set[str] = set()
_lock = RLock()  # a second thread that reads a name waits until the module's code has run


def put_off(names: frozenset[str] = SELDOM_READ) -> None:
    """Put off, from now on, the code of these modules until one of their names is read; imported ones stay."""
    sys.meta_path.insert(0, _Finder(names))


class _Later(ModuleType):
    """A module whose code has not run to its end."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":  # what the machinery of imports asks for, and inspection
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        with _lock:
            if self.__name__ in _running:  # a circle of imports: the code has not come so far
                raise AttributeError(f"partially initialized module {self.__name__!r} has no attribute {name!r}")
            if type(self) is _Later:
                _run(self)
        return getattr(self, name)


def _run(module: _Later) -> None:
    assert module.__spec__ is not None
    assert module.__spec__.loader is not None
    _running.add(module.__name__)
    try:
        module.__spec__.loader.exec_module(module)
    finally:
        _running.remove(module.__name__)
    module.__class__ = ModuleType  # type: ignore[assignment]  # its code has run: it is a module as any other


class _Finder:
    """Finds the modules as Python does, and gives each a loader that does not run its code."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of the list, if there is such a module; None for any other."""
        spec = PathFinder.find_spec(name, path, target) if name in self._names else None
        if spec is not None and spec.loader is not None:
            spec.loader = _NotYet(spec.loader)
        return spec


class _NotYet(Loader):
    """Makes a module, and leaves its code for later."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return what the loader returns: None, for a new module."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Put the module's own loader back, without running its code."""
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        module.__class__ = _Later
