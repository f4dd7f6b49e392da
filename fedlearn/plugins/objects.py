"""Name objects in settings, which are text.

An object that other processes can import has its import name, ``module:Class``, as on the command line. Another object,
as a class made in a script or in a cell of a notebook, is pickled by value (cloudpickle) and has the name
``object:NAME-FINGERPRINT``. Its pickle lies in the folder ``objects`` of the run, where every process of the run and of
a resumed run finds it.

The fingerprint is a hash of the code: of what functions do and of the values that they use, not of file names, line
numbers or the session. The same cell in another kernel has the same fingerprint and a changed cell another one, so a
run is never resumed with other code unnoticed. A file names the object that it holds, and the checkpoint of the run
holds the SHA-256 of the file: a file that replaced another is found before it is unpickled.

Unpickling runs code. Runs, resumed runs and evaluations unpickle; reports and other views of a run never do.
"""

from __future__ import annotations

import copyreg
import hashlib
import importlib
import io
import json
import pickle
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from fedlearn.plugins.own_packages import is_taken

SCHEME = "object:"
FOLDER = "objects"  # in a run folder
DIGITS = 16  # of the fingerprint, in hexadecimal
REFERENCE = re.compile(rf"{SCHEME}(\w+)-([0-9a-f]{{{DIGITS}}})")
MADE_BY_THE_COMPILER = ("__firstlineno__", "__static_attributes__", "__dict__", "__weakref__")  # of classes
OF_A_SESSION = "_original_object_hash"  # of GenerationConfig of `transformers`: Python's hash, drawn by each process
LARGEST_CHECKPOINT = 1 << 26  # bytes
INSTEAD = "; a function that makes it can be given in its place"
PLAIN = (bool, int, float, complex, str, bytes, type(None))

_packed: dict[str, bytes] = {}  # reference -> content of its file, for objects that were given to this process
_folders: list[Path] = []  # run folders, the latest first


def reference_to(value: object, name: str = "") -> str:
    """Return the text that names an object in settings; from now on this process can load the object by that text.

    Parameters
    ----------
    name
        A name for people, in the reference; with a name, an importable object is pickled, too.
    """
    if not name and (importable := _importable_name(value)):
        return importable
    with _by_value(value):
        reference = f"{SCHEME}{name or _name_of(value)}-{_fingerprint(value)}"
        _packed[reference] = _with_header(_pickled(value), reference)
    return reference


def is_reference(text: object) -> bool:
    """Return whether a setting's value names a pickled object.

    >>> is_reference("object:Net-0123456789abcdef"), is_reference("mylab.models:Net")
    (True, False)
    """
    return isinstance(text, str) and REFERENCE.fullmatch(text) is not None


def references_in(text: str) -> list[str]:
    """Return the names of pickled objects in a setting's value, which may be a list.

    >>> references_in('["object:Net-0123456789abcdef", {"mylab:Net": {}}]'), references_in("mylab.models:Net")
    (['object:Net-0123456789abcdef'], [])
    """
    return [match[0] for match in REFERENCE.finditer(text)]


def name_in(reference: str) -> str:
    """Return the name of an object without its fingerprint; of other references, the part after the colon.

    >>> name_in("object:Net-0123456789abcdef"), name_in("mylab.models:Net")
    ('Net', 'Net')
    """
    match = REFERENCE.fullmatch(reference)
    return match[1] if match else reference.rpartition(":")[2]


def file_of(reference: str) -> str:
    """Return the name of an object's file in a run folder."""
    return f"{FOLDER}/{reference.removeprefix(SCHEME)}.pickle"


def content_of(reference: str) -> bytes:
    """Return the bytes of the file of an object: a line, then the pickle.

    The line holds the Python version, the SHA-256 of the pickle, and the name with the fingerprint. Older versions of
    fedlearn did not write the name.

    Raises
    ------
    ImportError
        If this process was not given the object, and no run folder that it knows holds it; or if the run's checkpoint
        names another content.
    """
    if reference in _packed:
        return _packed[reference]
    for folder in _folders:
        path = folder / file_of(reference)
        if path.is_file():
            content = path.read_bytes()
            if _stored_digest(folder, reference) not in ("", hashlib.sha256(content).hexdigest()):
                raise ImportError(f"{path} is other code than the run was begun with: put back what was written")
            return content
    where = f"{_folders[0] / file_of(reference)} is not there" if _folders else "no run folder is known"
    raise ImportError(f"{where}: give the object again, from Python")


def look_in(folder: str | Path) -> None:
    """Add a run folder to the places of objects; fingerprints in their names keep the objects of runs apart."""
    path = Path(folder).resolve()
    if path in _folders:
        _folders.remove(path)
    _folders.insert(0, path)


def load(reference: str) -> Any:
    """Return a new copy of a pickled object; a class is the same at each call.

    Raises
    ------
    ImportError
        If the object is not found, damaged, or of another version of Python.
    """
    if not is_reference(reference):
        raise ImportError(f"a pickled object is written {SCHEME}NAME-FINGERPRINT")
    header, _, data = content_of(reference).partition(b"\n")
    version, digest, *name = [*header.decode("ascii", "replace").split(" "), ""][:3]
    if digest != hashlib.sha256(data).hexdigest():
        raise ImportError(f"{file_of(reference)} is damaged, or was changed by hand")
    if name[0] not in ("", reference.removeprefix(SCHEME)):
        raise ImportError(f"{file_of(reference)} holds other code, {name[0]}: put back what was written")
    if version != _version():
        raise ImportError(f"it was stored by Python {version}, and this is {_version()}: give the object again")
    try:
        return pickle.loads(data)
    except Exception as error:  # foreign code may raise anything
        raise ImportError(f"{type(error).__name__}: {error}") from error


def _with_header(data: bytes, reference: str = "") -> bytes:
    name = reference.removeprefix(SCHEME)
    return f"{_version()} {hashlib.sha256(data).hexdigest()} {name}".rstrip().encode() + b"\n" + data


def _stored_digest(folder: Path, reference: str) -> str:
    """Return the SHA-256 of an object in the checkpoint of a run; empty where there is none."""
    path = folder / "checkpoint.json"
    if not path.exists():
        return ""
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_CHECKPOINT:
            raise ValueError("it is no file, or far too large")
        digest = json.loads(path.read_bytes()).get("files", {}).get(file_of(reference), "")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise ImportError(f"{path}, which says what code the run was begun with, cannot be read: {error}") from error
    return str(digest)


def _version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _pickled(value: object) -> bytes:
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(value)
    except Exception as error:
        raise ValueError(f"it cannot be pickled: {error}{INSTEAD}") from error
    return data


def _name_of(value: object) -> str:
    """Return a name for an object: its own for classes and functions, else that of its type in capitals."""
    own = getattr(value, "__name__", None)
    return re.sub(r"\W", "", own if isinstance(own, str) else type(value).__name__.upper()) or "unnamed"


# --- what can be imported ---------------------------------------------------------------------------------------------


def _importable_name(value: object) -> str:
    """Return ``module:name`` of a class or function that any process can import, else an empty text."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__" or module not in sys.modules:
        return ""
    if is_taken(module):  # a user's client.py: in our processes that name is ours
        return ""
    found: object = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is value and _can_be_found(module) else ""


def _can_be_found(name: str) -> bool:
    """Return whether imports find a module; pytest, for one, makes modules that they do not find."""
    module = sys.modules[name]
    path = None
    for end in (place for place, letter in enumerate(f"{name}.") if letter == "."):
        spec = _found(name[:end], path)
        if spec is None:
            return False
        path = spec.submodule_search_locations
    return bool(spec.origin == getattr(module, "__file__", spec.origin))


def _found(name: str, path: Any) -> Any:
    specs = (finder.find_spec(name, path) for finder in sys.meta_path)
    return next((spec for spec in specs if spec is not None), None)


@contextmanager
def _by_value(value: object) -> Iterator[None]:
    """Have cloudpickle pickle the modules by value that other processes cannot import, or would confuse with ours."""
    import cloudpickle

    own = getattr(value, "__module__", None)
    hidden = {own} if isinstance(own, str) and own in sys.modules and own != "__main__" else set()
    hidden = {name for name in hidden if not _can_be_found(name)} | {name for name in sys.modules if is_taken(name)}
    for name in hidden:
        cloudpickle.register_pickle_by_value(sys.modules[name])
    for kind in {type(each) for each in sys.modules.values()} - {ModuleType}:  # such as that of torch.classes
        if issubclass(kind, ModuleType) and kind.__reduce__ is object.__reduce__:
            copyreg.pickle(kind, lambda module: (importlib.import_module, (module.__name__,)))
    try:
        yield
    finally:
        for name in hidden:
            cloudpickle.unregister_pickle_by_value(sys.modules[name])


# --- the fingerprint --------------------------------------------------------------------------------------------------


def _fingerprint(value: object) -> str:
    """Return a hash of the code and the values of an object: equal in all sessions of one version of Python."""
    import cloudpickle

    torch: Any = sys.modules.get("torch")
    tensors: dict[int, tuple[int, object]] = {}

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        """Pickles for the hash alone; the pickle cannot be loaded."""

        def persistent_id(self, each: Any) -> Any:
            if isinstance(each, set | frozenset) and all(isinstance(part, PLAIN) for part in each):
                return sorted(map(repr, each))  # the order of a set differs from session to session
            if torch is not None and isinstance(each, torch.Tensor):
                place, _ = tensors.setdefault(id(each), (len(tensors), each))  # held, so that no other has its id
                return place, *_numbers_of(each, torch)  # torch itself would write addresses
            return None

        def reducer_override(self, each: Any) -> Any:
            if isinstance(each, CodeType):
                return tuple, (_essence(each),)
            if OF_A_SESSION in getattr(each, "__dict__", ()) and not isinstance(each, type):
                return tuple, ((type(each), {n: part for n, part in vars(each).items() if n != OF_A_SESSION}),)
            reduced = super().reducer_override(each)
            if not isinstance(reduced, tuple) or len(reduced) < 3:
                return reduced
            _, arguments, state, *_ = reduced
            if isinstance(each, type):
                # cloudpickle gives each class a random name, by which a process knows it again.
                arguments = tuple(part for part in arguments if part != _session_name(each))
                attributes = {key: part for key, part in state[0].items() if key not in MADE_BY_THE_COMPILER}
                if not attributes.get("__annotations__", True):
                    del attributes["__annotations__"]  # Python makes it, empty, when it is read
                return tuple, ((arguments, sorted(attributes)),), attributes
            code, names, *rest = arguments
            names.pop("__file__", None)
            return tuple, ((code, names, *rest),), state

    written = io.BytesIO()
    try:
        Pickler(written, protocol=5).dump(value)
    except Exception as error:
        raise ValueError(f"it cannot be pickled: {error}{INSTEAD}") from error
    return hashlib.sha256(written.getvalue()).hexdigest()[:DIGITS]


def _numbers_of(tensor: Any, torch: Any) -> tuple[object, ...]:
    """Return a tensor's kind, and a hash of its numbers."""
    numbers = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    about = (type(tensor).__name__, str(tensor.dtype), tuple(tensor.shape), tensor.requires_grad)
    return *about, hashlib.sha256(numbers).hexdigest()


def _session_name(kind: type) -> str:
    names: Any = importlib.import_module("cloudpickle.cloudpickle")._DYNAMIC_CLASS_TRACKER_BY_CLASS
    return str(names.get(kind, ""))


def _essence(code: CodeType) -> tuple[Any, ...]:
    """Return the code of a function without file and line numbers."""
    signature = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return code.co_name, signature, names, code.co_consts, code.co_code
