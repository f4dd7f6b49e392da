"""What is installed by an extra: where a module of ours imports a library that is not there, the error says what to do.

Our own modules alone are told so: another library may look whether pandas is there, and go on without it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType

from fedlearn.core.errors import UsageError
from fedlearn.plugins.own_packages import NAMES

EXTRA_OF = {
    "llvmlite": "fast",
    "numba": "fast",
    "datasets": "data",
    "flwr_datasets": "data",
    "PIL": "data",
    "pyarrow": "data",
    "torchvision": "data",
    "yaml": "data",
    "dp_accounting": "private",
    "opendp": "private",
    "matplotlib": "report",
    "prometheus_client": "monitor",
    "onnx": "onnx",
    "onnxscript": "onnx",
    "ray": "ray",
    "tensorboard": "tensorboard",
    "mlflow": "mlflow",
    "wandb": "wandb",
}
"""A library's name in Python -> the extra of fedlearn that installs it."""


class MissingExtra(UsageError, ModuleNotFoundError):
    """A library is not installed that only some jobs need; the text says what installs it.

    >>> str(MissingExtra("matplotlib"))
    'matplotlib is not installed: pip install "fedlearn[report]"'
    """

    def __init__(self, library: str) -> None:
        super().__init__(f'{library} is not installed: pip install "fedlearn[{EXTRA_OF[library]}]"')


class _Extras:
    """The last of Python's finders: it is asked for what no other has found."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name in EXTRA_OF and _importer().partition(".")[0] in ("fedlearn", *NAMES):
            raise MissingExtra(name)
        return None


def _importer() -> str:
    """Return the name of the module whose `import` asks."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") == "importlib._bootstrap":
        frame = frame.f_back
    return str(frame.f_globals.get("__name__")) if frame is not None else ""


EXTRAS = _Extras()


def version_of(library: str) -> str:
    """Return the version of a library that an extra installs.

    Raises
    ------
    MissingExtra
        If it is not installed.
    """
    from importlib.metadata import PackageNotFoundError, version  # slow: whoever imports fedlearn need not wait for it

    try:
        return version(library.replace("_", "-"))
    except PackageNotFoundError:
        raise MissingExtra(library) from None
