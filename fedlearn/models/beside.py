"""What a module, a loss or a learner keeps beside the state: put back before each fit, as it was when it was made.

A process computes many nodes with one module, and which ones depends on how many processes there are. The state is
loaded for each; this is about the rest: buffers that are not stored, counters and other attributes, lists, closures,
class attributes and the global names that functions use. Containers are found once, and their contents kept by
reference; before a fit each gets its contents back, in place, so that whatever else refers to it sees them, too.
Numbers in arrays and tensors are copied. What cannot be seen, as in compiled code, a trial fit before the first round
finds (`client.trying`).

Random generators that are held as attributes are not put back but listed: each fit seeds them.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import cache, partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from fedlearn.plugging.generators import is_generator

Found = Iterator[tuple[str, Any]]

NOT_THERE = object()
ATOMS = (type(None), bool, int, float, complex, str, bytes, ModuleType, range, Enum, np.generic, np.dtype)
PYTHONS = sys.stdlib_module_names - {"__main__"}
KNOWN = {
    "torch",
    "torchvision",
    "numpy",
}  # they draw from torch's generator alone, and keep what they keep in attributes
OURS = ("fedlearn.", "client.")
INSTALLED = ("site-packages", "dist-packages")


class Beside:
    """What some objects keep, as it is now.

    Parameters
    ----------
    roots
        Modules, losses, learners, by what their attributes are called by.
    without
        What is not looked at: tensors that are loaded anyway, what another one of these keeps.
    apart
        Attributes of a root that are not put back.

    Attributes
    ----------
    generators
        Random generators among what was found, each with a state of its own.
    is_foreign
        Whether any code was found that is neither ours nor torch's.
    is_left
        Whether nothing is put back for now, to see what that would change.

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
        self, roots: Mapping[str, object], *, without: Iterable[object] = (), apart: Iterable[str] = ()
    ) -> None:
        self.generators: list[object] = []
        self.is_foreign = self.is_left = False
        self._held: list[_Held | _Items | _Numbers] = []
        self._apart = frozenset(apart)
        self._roots = {id(root) for root in roots.values()}
        self._alive: list[object] = list(without)  # an id is told apart only as long as its object lives
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
        """Give everything the contents that it had."""
        if not self.is_left:
            for held in self._held:
                held.put_back()

    def changed(self) -> list[str]:
        """Return the names of what has other contents than it had."""
        return sorted({name for held in self._held for name in held.changed()})

    def _within(self, where: str, value: Any) -> Found:
        """Keep the contents of one object; yield what is to be looked at next."""
        torch: Any = sys.modules.get("torch")
        if is_generator(value):
            self.generators.append(value)
        elif torch is not None and isinstance(value, torch.nn.Module):
            yield from self._of_module(where, value)
        elif torch is not None and isinstance(value, torch.Tensor):
            if not isinstance(value, torch.nn.parameter.UninitializedTensorMixin) and value.device.type != "meta":
                self._held.append(_Numbers(where, value, value.detach().clone(), torch.equal))
        elif isinstance(value, np.ndarray):
            if value.flags.writeable and not isinstance(value, np.memmap):
                self._held.append(_Numbers(where, value, value.copy(), np.array_equal))
        elif isinstance(value, dict):
            yield from self._of_names(_Names(where, value))
        elif isinstance(value, list | deque | set | bytearray):
            self._held.append(_Items(where, value))
            if not isinstance(value, bytearray):
                yield from ((where, each) for each in value)
        elif isinstance(value, tuple | frozenset):
            yield from ((where, each) for each in value)
        elif isinstance(value, partial):
            yield from ((where, each) for each in (value.func, value.args, value.keywords))
        elif isinstance(value, MethodType):
            yield from ((where, each) for each in (value.__func__, value.__self__))
        elif isinstance(value, CellType):
            yield from self._of_names(_Cell(where, value))
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
                yield from self._of_names(_Names(where, attributes, apart))
            yield from self._of_names(_Attributes(where, value, _slots_of(type(value))))

    def _of_module(self, where: str, module: Any) -> Found:
        self.is_foreign |= not _is_known(type(module))
        yield where, type(module)
        yield from self._of_names(_Names(where, vars(module), _of_every_module()))
        for held in (module._parameters, module._buffers, module._modules):
            if isinstance(held, dict) and held:
                yield from self._of_names(_Names(where, held))

    def _of_function(self, where: str, function: FunctionType) -> Found:
        self.is_foreign = True
        where = where or function.__name__
        yield from self._of_names(_Names(where, vars(function)))
        yield from ((where, each) for each in (function.__defaults__, function.__kwdefaults__))
        yield from ((where, each) for each in function.__closure__ or ())
        known = function.__globals__
        used = {name: known[name] for name in _names_in(function.__code__) if name in known}
        names = [name for name, value in used.items() if not isinstance(value, ModuleType)]
        where = function.__module__
        yield from self._of_names(_Names(where, known, frozenset(known.keys() - names), only=True))

    def _of_class(self, where: str, kind: type[Any]) -> Found:
        self.is_foreign = True
        yield from ((where, base) for base in kind.__bases__)
        own = {name: value for name, value in vars(kind).items() if not name.startswith(("__", "_abc_"))}
        plain = [name for name, value in own.items() if not hasattr(type(value), "__get__")]
        yield from self._of_names(_Attributes(where, kind, plain))
        for value in vars(kind).values():
            if isinstance(value, property):
                yield from ((where, each) for each in (value.fget, value.fset))
            else:
                yield where, getattr(value, "__func__", value) if hasattr(type(value), "__get__") else None

    def _of_names(self, held: _Held) -> Found:
        if held.contents or isinstance(held, _Names):
            self._held.append(held)
        yield from ((_joined(held.where, name), value) for name, value in held.contents.items())


class _Held:
    """What stands under some names; `get` and `put` know where."""

    def __init__(self, where: str, names: Iterable[Any]) -> None:
        self.where = where
        self.contents: dict[Any, Any] = {name: self.get(name) for name in names}

    def get(self, name: Any) -> Any:
        raise NotImplementedError

    def put(self, name: Any, value: Any) -> None:
        raise NotImplementedError

    def put_back(self) -> None:
        for name, value in self.contents.items():
            if self.get(name) is not value:
                self.put(name, value)

    def changed(self) -> list[str]:
        return [_joined(self.where, name) for name, was in self.contents.items() if _differ(self.get(name), was)]


class _Names(_Held):
    """A dict, but for what is set apart: of attributes, a module's buffers, or global names.

    `only`: what is new in it stays.
    """

    def __init__(
        self, where: str, held: dict[Any, Any], apart: frozenset[Any] = frozenset(), *, only: bool = False
    ) -> None:
        self.held, self.apart, self.only = held, apart, only
        super().__init__(where, [name for name in held if name not in apart])
        self._size = len(held)

    def get(self, name: Any) -> Any:
        return self.held.get(name, NOT_THERE)

    def put_back(self) -> None:
        held = self.held
        for name, value in self.contents.items():  # not by `get`: there are hundreds of them in a large network
            if held.get(name, NOT_THERE) is not value:
                held[name] = value
        for name in self._new():
            del held[name]

    def changed(self) -> list[str]:
        return [*super().changed(), *(_joined(self.where, name) for name in self._new())]

    def _new(self) -> list[Any]:
        if self.only or len(self.held) == self._size:
            return []
        return [name for name in self.held if name not in self.contents and name not in self.apart]


class _Attributes(_Held):
    """Some attributes: of a class, or those that lie in slots."""

    def __init__(self, where: str, holder: Any, names: Iterable[str]) -> None:
        self.holder = holder
        super().__init__(where, names)

    def get(self, name: str) -> Any:
        return getattr(self.holder, name, NOT_THERE)

    def put(self, name: str, value: Any) -> None:
        if value is not NOT_THERE:
            (setattr if isinstance(self.holder, type) else object.__setattr__)(self.holder, name, value)
        elif hasattr(self.holder, name):
            object.__delattr__(self.holder, name)


class _Cell(_Held):
    """A name that a function shares with the one in which it was made."""

    def __init__(self, where: str, cell: CellType) -> None:
        self.cell = cell
        super().__init__(where, [""])

    def get(self, name: str) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:  # not set yet
            return NOT_THERE

    def put(self, name: str, value: Any) -> None:
        if value is not NOT_THERE:
            self.cell.cell_contents = value


class _Items:
    """A list, a deque, a set, or bytes."""

    def __init__(self, where: str, held: Any) -> None:
        self.where, self.held, self.items = where, held, held.copy()

    def put_back(self) -> None:
        if isinstance(self.held, list | bytearray):
            self.held[:] = self.items
        else:
            self.held.clear()
            (self.held.update if isinstance(self.held, set) else self.held.extend)(self.items)

    def changed(self) -> list[str]:
        if isinstance(self.held, set):
            return [self.where] if self.held != self.items else []
        both = zip(self.held, self.items, strict=False)
        differs = len(self.held) != len(self.items) or any(_differ(one, other) for one, other in both)
        return [self.where] if differs else []


class _Numbers:
    """An array or a tensor."""

    def __init__(self, where: str, held: Any, copy: Any, equal: Callable[[Any, Any], bool]) -> None:
        self.where, self.held, self.copy, self.equal = where, held, copy, equal

    def put_back(self) -> None:
        if not self.changed():  # to read costs less than to write, and leaves memory shared between processes
            return
        if self.held.shape != self.copy.shape:
            self.held.data = self.copy.clone()
        else:
            (self.held if isinstance(self.held, np.ndarray) else self.held.detach())[...] = self.copy

    def changed(self) -> list[str]:
        return [] if self.equal(self.held, self.copy) else [self.where]


def _differ(one: Any, other: Any) -> bool:
    """Return whether two objects are not the same, nor equal numbers or texts."""
    return one is not other and not (isinstance(one, ATOMS) and type(one) is type(other) and one == other)


def _joined(where: str, name: object) -> str:
    return f"{where}.{name}".strip(".") if isinstance(name, str) else where


def _names_in(code: CodeType) -> set[str]:
    """Return the names that a function uses and does not own, and those of the functions in it."""
    inner = (_names_in(each) for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*inner)


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
    """Return whether a class or function is neither known nor of another library that was installed.

    Of those only what objects hold is looked at: what their code refers to has no end.
    """
    package = thing.__module__.partition(".")[0]
    return not _is_known(thing) and (package == "__main__" or not _is_installed(package))


@cache
def _is_installed(package: str) -> bool:
    file = getattr(sys.modules.get(package), "__file__", None) or ""
    return any(folder in file for folder in INSTALLED)
