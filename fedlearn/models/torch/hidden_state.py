"""Restoration of attributes that modules, losses and learners keep outside of the state, before each fit.

A process computes many nodes with one module; which nodes, depends on the number of processes. The state is loaded for
each node. This module restores everything else: buffers that are not stored, counters and other attributes, lists,
closures, class attributes, and the global names that functions use. Containers are found once, and their contents
remembered (`fedlearn.models.torch.containers`). Before a fit the contents are put back in place, so that other
references to the same container see them, too. What cannot be found, for example in compiled code, makes a trial fit
before the first round fail (`client.trying`).

Random generators among the attributes are not restored but listed: each fit seeds them.
"""

from __future__ import annotations

import dis
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from types import CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from fedlearn.models.torch.containers import ATOMS, Attributes, Cell, Entries, Items, Names, Numbers, joined, kind_of
from fedlearn.plugins.generators import is_generator

Found = Iterator[tuple[str, Any]]

PYTHONS = sys.stdlib_module_names - {"__main__"}
KNOWN = {
    "torch",
    "torchvision",
    "numpy",
}  # they draw from torch's generator alone, and keep what they keep in attributes
OURS = ("fedlearn.", "client.")
INSTALLED = ("site-packages", "dist-packages")


class Beside:
    """Remembered contents of all containers that some objects refer to.

    Parameters
    ----------
    roots
        Name -> module, loss or learner; the names of its attributes begin with it.
    without
        Objects that are left out: tensors that a state loads anyway, or objects of another `Beside`.
    apart
        Attributes of a root that are not put back.
    kept
        Id of a tensor -> one with its numbers, which is remembered in place of a copy.

    Attributes
    ----------
    generators
        Random generators that were found, each with a state of its own.
    is_foreign
        Whether any code was found that is neither ours nor torch's.
    is_left
        Whether `put_back` does nothing for now: the trial sees then what would change.

    Examples
    --------
    >>> kept = SimpleNamespace(steps=0, losses=[])
    >>> beside = Beside({"": kept})
    >>> kept.steps, kept.more = 3, True
    >>> kept.losses.append(0.5)
    >>> beside.changed()
    ['losses', 'more', 'steps']
    >>> beside.put_back()
    >>> kept
    namespace(steps=0, losses=[])
    """

    def __init__(
        self,
        roots: Mapping[str, object],
        *,
        without: Iterable[object] = (),
        apart: Iterable[str] = (),
        kept: Mapping[int, Any] = MappingProxyType({}),
    ) -> None:
        self.generators: list[object] = []
        self.is_foreign = self.is_left = False
        self._remembered: list[Names | Items | Numbers] = []
        self._apart = frozenset(apart)
        self._kept = kept
        self._roots = {id(root) for root in roots.values()}
        self._alive: list[object] = list(without)  # an id names one object only as long as that object lives
        self._seen = {id(each) for each in self._alive}
        waiting = deque[tuple[str, Any]](roots.items())
        while waiting:
            where, value = waiting.popleft()
            if isinstance(value, ATOMS) or id(value) in self._seen:
                continue
            self._seen.add(id(value))
            self._alive.append(value)
            waiting.extend(self._within(where, value))
        self._alive.clear()
        self._seen.clear()

    def put_back(self) -> None:
        """Put the remembered contents back into every container."""
        if not self.is_left:
            for each in self._remembered:
                each.put_back()

    def take_numbers(self) -> None:
        """Remember the numbers that arrays and tensors have now."""
        for each in self._remembered:
            if isinstance(each, Numbers):
                each.take()

    def changed(self) -> list[str]:
        """Return the names of all contents that are not as remembered."""
        return sorted({name for each in self._remembered for name in each.changed()})

    def _within(self, where: str, value: Any) -> Found:
        """Remember the contents of one object; yield the objects to look at next."""
        torch: Any = sys.modules.get("torch")
        if is_generator(value):
            self.generators.append(value)
        elif torch is not None and isinstance(value, torch.nn.Module):
            yield from self._of_module(where, value)
        elif torch is not None and isinstance(value, torch.Tensor):
            if not isinstance(value, torch.nn.parameter.UninitializedTensorMixin) and value.device.type != "meta":
                if (copy := self._kept.get(id(value))) is None:
                    self._remembered.append(Numbers(where, value, value.detach().clone(), torch.equal))
                else:
                    from fedlearn.models.torch.mapped_base import same_as  # imports torch

                    self._remembered.append(Numbers(where, value, copy, same_as(value)))
        elif isinstance(value, np.ndarray):
            if value.flags.writeable and not isinstance(value, np.memmap):
                self._remembered.append(Numbers(where, value, value.copy(), np.array_equal))
        elif isinstance(value, dict):
            yield from self._of_contents(Entries(where, value))
        elif isinstance(value, list | deque | set | bytearray):
            self._remembered.append(Items(where, value))
            if not isinstance(value, bytearray):
                yield from ((where, each) for each in kind_of(value).__iter__(value))
        elif isinstance(value, tuple | frozenset):
            yield from ((where, each) for each in value)
        elif isinstance(value, partial):
            yield from ((where, each) for each in (value.func, value.args, value.keywords))
        elif isinstance(value, MethodType):
            yield from ((where, each) for each in (value.__func__, value.__self__))
        elif isinstance(value, CellType):
            yield from self._of_contents(Cell(where, value))
        elif isinstance(value, FunctionType):
            if _is_of_the_user(value):
                yield from self._of_function(where, value)
        elif isinstance(value, type):
            if _is_of_the_user(value):
                yield from self._of_class(where, value)
        elif id(value) in self._roots or _has_attributes(type(value)):
            self.is_foreign |= not _is_known(type(value))
            yield where, type(value)
            apart = self._apart if id(value) in self._roots else frozenset[str]()
            if isinstance(attributes := getattr(value, "__dict__", None), dict):
                yield from self._of_contents(Entries(where, attributes, apart))
            yield from self._of_contents(Attributes(where, value, _slots_of(type(value))))

    def _of_module(self, where: str, module: Any) -> Found:
        self.is_foreign |= not _is_known(type(module))
        yield where, type(module)
        yield from self._of_contents(Entries(where, vars(module), _of_every_module()))
        for held in (module._parameters, module._buffers, module._modules):
            if isinstance(held, dict) and held:
                yield from self._of_contents(Entries(where, held))

    def _of_function(self, where: str, function: FunctionType) -> Found:
        self.is_foreign = True
        where = where or function.__name__
        yield from self._of_contents(Entries(where, vars(function)))
        yield from ((where, each) for each in (function.__defaults__, function.__kwdefaults__))
        yield from ((where, each) for each in function.__closure__ or ())
        known, read, written = function.__globals__, *_globals_of(function.__code__)
        where = function.__module__
        yield from self._of_contents(Entries(where, known, frozenset(known.keys() - written), only=True))
        for name in sorted(read & known.keys() - written):
            if not isinstance(known[name], ModuleType):
                yield joined(where, name), known[name]

    def _of_class(self, where: str, kind: type[Any]) -> Found:
        self.is_foreign = True
        yield from ((where, base) for base in kind.__bases__)
        own = {name: value for name, value in vars(kind).items() if not name.startswith(("__", "_abc_"))}
        plain = [name for name, value in own.items() if not hasattr(type(value), "__get__")]
        yield from self._of_contents(Attributes(where, kind, plain))
        for value in vars(kind).values():
            if isinstance(value, property):
                yield from ((where, each) for each in (value.fget, value.fset))
            else:
                yield where, getattr(value, "__func__", value) if hasattr(type(value), "__get__") else None

    def _of_contents(self, found: Names) -> Found:
        if found.contents or isinstance(found, Entries):
            self._remembered.append(found)
        yield from ((joined(found.where, name), value) for name, value in found.contents.items())


def _globals_of(code: CodeType) -> tuple[set[str], set[str]]:
    """Return the global names that a function uses, and those of them that it binds, with the functions inside it.

    A name that it only reads is not put back: what binds it is no part of a fit, such as a line of the user's script.
    """
    read: set[str] = set()
    written: set[str] = set()
    for each in dis.get_instructions(code):
        if each.opname.endswith("_GLOBAL"):
            (read if each.opname == "LOAD_GLOBAL" else written).add(each.argval)
    for inner in (each for each in code.co_consts if isinstance(each, CodeType)):
        more_read, more_written = _globals_of(inner)
        read |= more_read
        written |= more_written
    return read, written


def _slots_of(kind: type[Any]) -> list[str]:
    slots = [each for base in kind.__mro__ for each in _as_tuple(vars(base).get("__slots__", ()))]
    return [name for name in slots if not name.startswith("__")]


def _as_tuple(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


@cache
def _of_every_module() -> frozenset[str]:
    return frozenset(vars(sys.modules["torch"].nn.Module()))


def _is_known(thing: Any) -> bool:
    """Return whether a class or function is ours, torch's, NumPy's or Python's own."""
    module = _module_of(thing)
    return module.startswith(OURS) or module.partition(".")[0] in KNOWN


def _has_attributes(kind: type[Any]) -> bool:
    """Return whether objects of a class may keep something in attributes: any but ours and Python's own."""
    module = _module_of(kind)
    is_plain = module.startswith(OURS) or module.partition(".")[0] in PYTHONS
    return not is_plain or kind is SimpleNamespace


def _module_of(thing: Any) -> str:
    return getattr(thing, "__module__", None) or "builtins"


def _is_of_the_user(thing: Any) -> bool:
    """Return whether a class or function is the user's: neither known, nor Python's, nor of another installed library.

    Of installed libraries only the attributes of objects are searched: their code refers to too much. Of Python's it
    refers to what must not be put back, such as the list of threads.
    """
    package = thing.__module__.partition(".")[0]
    is_python = package in PYTHONS
    return not (is_python or _is_known(thing)) and (package == "__main__" or not _is_installed(package))


@cache
def _is_installed(package: str) -> bool:
    file = getattr(sys.modules.get(package), "__file__", None) or ""
    return any(folder in file for folder in INSTALLED)
