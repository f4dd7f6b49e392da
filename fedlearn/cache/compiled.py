"""Compile functions by numba, and keep their machine code where no other user can change it."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import llvmlite
import numba
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator
from numba.core.serialize import dumps

from fedlearn.cache.trusted import cache_folder, check_ours, open_ours, said_of, say_once

BLAS = "scipy.linalg.cython_blas"


def _import_without_scipy() -> None:
    """Import what numba imports before it compiles, without scipy.linalg, which takes a fifth of a second.

    Numba looks in scipy.linalg for a BLAS. Compiling a function that multiplies matrices imports scipy.linalg.
    """
    if "numba.np.arraymath" in sys.modules or BLAS in sys.modules:
        return
    sys.modules[BLAS] = None  # type: ignore[assignment]  # None: the import fails
    try:
        from numba.np import arraymath
    finally:
        del sys.modules[BLAS]
    arraymath._HAVE_BLAS = find_spec("scipy") is not None


_import_without_scipy()


def compiled(signature: Any = None, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: `numba.njit` with these options, whose machine code is kept on disk.

    Numba's own place is ``NUMBA_CACHE_DIR``, a folder beside the file, or one in the home. Where other users may write
    to it, our cache folder is taken. Where that cannot be written to, as in another user's container, each process
    compiles anew.

    Parameters
    ----------
    signature
        A signature has the function compiled at once; without one it is compiled at the first call.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        njit: Any = numba.njit
        made = njit(**options)(function)
        if not config.DISABLE_JIT:  # type: ignore[attr-defined]
            made._cache = _kept(function) or made._cache
            if signature is not None:
                made.compile(signature)
        return made

    return decorate


class _Locator(UserProvidedCacheLocator):
    """Makes numba keep compiled code in our cache folder."""

    def __init__(self, function: Any, file: str, folder: Path) -> None:
        super().__init__(function, file)  # type: ignore[no-untyped-call]
        where: str = self.get_suitable_cache_subpath(file)  # type: ignore[no-untyped-call]
        self._cache_path = str(folder / f"compiled-{where}")

    def ensure_cache_path(self) -> None:
        """Make the folder, writable by its owner alone."""
        Path(self._cache_path).mkdir(0o700, exist_ok=True)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator | None:
        """Return a locator; None where there is no folder that can be written to."""
        with suppress(OSError):
            folder = cache_folder()
            if folder is not None:
                found = cls(py_func, py_file, folder)
                found.ensure_cache_path()
                return found
        return None


class _InOurFolder(CompileResultCacheImpl):
    _locator_classes: ClassVar[Any] = [_Locator]  # type: ignore[misc]


class _CacheInOurFolder(FunctionCache):
    _impl_class = _InOurFolder


def _kept(function: Callable[..., Any]) -> FunctionCache | None:
    """Return numba's cache of a function, with files that no other user can write; None if there is no place for it."""
    for kind in (FunctionCache, _CacheInOurFolder):
        try:
            kept: Any = kind(function)  # type: ignore[no-untyped-call]
            folder = Path(kept.cache_path)
            check_ours(folder.parent, folder.name)
        except RuntimeError:  # numba has found no folder that can be written to
            continue
        except OSError as error:
            say_once(f"{said_of(error)}: compiled code is kept elsewhere; chmod go-w, or set NUMBA_CACHE_DIR")
            continue
        kept._cache_file = _Files(folder, kept._impl.filename_base, _texts(Path(function.__code__.co_filename).parent))
        return kept  # type: ignore[no-any-return]
    say_once(
        "code is compiled anew in each process: neither its folder, nor the home folder, nor that of FEDLEARN_CACHE "
        "is ours and can be written to; set NUMBA_CACHE_DIR to a folder of your own"
    )
    return None


class _Files:
    """Keeps the machine code of a function, in a file for each signature and processor, in place of numba's own files.

    Numba unpickles any file in its folder. A file here begins with the SHA-256 of the source text and of the file's
    rest; a file that was cut off, or compiled from another text, is made anew.

    Parameters
    ----------
    folder, name
        The folder of the files, and how their names begin.
    texts
        A hash of everything that the machine code depends on and that numba does not look at.
    """

    def __init__(self, folder: Path, name: str, texts: bytes) -> None:
        self._folder, self._name, self._texts = folder, name, texts

    def load(self, key: Any) -> Any:
        """Return the entry of one of numba's keys; None if there is none."""
        try:
            with open_ours(self._folder.parent, self._folder.name, self._file_of(key)) as file:
                whole = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            say_once(f"{said_of(error)}: the file is not read, and the code is compiled anew")
            return None
        digest, data = whole[: sha256().digest_size], whole[sha256().digest_size :]
        return pickle.loads(data) if self._digest(data) == digest else None

    def save(self, key: Any, data: Any) -> None:
        """Write the entry of one of numba's keys, if the disk has room."""
        packed: bytes = dumps(data)  # type: ignore[no-untyped-call]
        path = self._folder / self._file_of(key)
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with open(aside, "wb", opener=lambda name, flags: os.open(name, flags, 0o644)) as file:
                file.write(self._digest(packed) + packed)
            aside.replace(path)
        except OSError as error:
            say_once(f"{said_of(error)}: compiled code cannot be kept there, and is made anew in each process")
            with suppress(OSError):
                aside.unlink()

    def _file_of(self, key: Any) -> str:
        return f"{self._name}.{sha256(repr(key).encode()).hexdigest()[:16]}.nbc"

    def _digest(self, data: bytes) -> bytes:
        return sha256(self._texts + data).digest()


@cache
def _texts(folder: Path) -> bytes:
    """Return a hash of all source files in a folder, of numba's settings, and of the compiler's versions.

    Numba looks at the text of a function alone, not at the functions that it calls.
    """
    settings = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("NUMBA_")]
    versions = f"{numba.__version__} {llvmlite.__version__} {settings}".encode()
    texts = [path.read_bytes() for path in sorted(folder.glob("*.py"))]
    return sha256(b"".join(sha256(each).digest() for each in [versions, *texts])).digest()
