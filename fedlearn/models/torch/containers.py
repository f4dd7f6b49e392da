"""Contents of containers, remembered so that they can be put back in place.

`fedlearn.models.torch.hidden_state` finds the containers: dicts, attributes, closures, lists, sets, arrays, tensors.
Contents are kept by reference; the numbers of arrays and tensors are copied.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from types import CellType, ModuleType
from typing import Any

import numpy as np

NOT_THERE = object()
ATOMS = (type(None), bool, int, float, complex, str, bytes, ModuleType, range, Enum, np.generic, np.dtype)


BASES: tuple[Any, ...] = (OrderedDict, dict, list, deque, set, bytearray)


def kind_of(container: object) -> Any:
    """Return Python's own class of a container, by whose methods it is read: those of a subclass may do anything.

    Mappings that `transformers` fills when their keys are asked for import a thousand modules.
    """
    return next(base for base in BASES if isinstance(container, base))


class Names:
    """Remembered values of some names of a container.

    Parameters
    ----------
    where
        Name of the container, as `changed` says it.
    names
        Names whose values are remembered.
    """

    def __init__(self, where: str, names: Iterable[Any]) -> None:
        self.where = where
        self.contents: dict[Any, Any] = {name: self.get(name) for name in names}

    def get(self, name: Any) -> Any:
        """Return the value of a name in the container; `NOT_THERE` where it has none."""
        raise NotImplementedError

    def put(self, name: Any, value: Any) -> None:
        """Set the value of a name in the container; remove the name for `NOT_THERE`."""
        raise NotImplementedError

    def put_back(self) -> None:
        """Set every name to its remembered value."""
        for name, value in self.contents.items():
            if self.get(name) is not value:
                self.put(name, value)

    def changed(self) -> list[str]:
        """Return the names whose value is not the remembered one."""
        return [joined(self.where, name) for name, was in self.contents.items() if differ(self.get(name), was)]


class Entries(Names):
    """Remembered entries of a dict: of attributes, of a module's buffers, or of global names.

    Parameters
    ----------
    apart
        Keys that are neither remembered nor removed.
    only
        Whether new keys stay; else they are removed.
    """

    def __init__(
        self, where: str, entries: dict[Any, Any], apart: frozenset[Any] = frozenset(), *, only: bool = False
    ) -> None:
        self.entries, self.apart, self.only = entries, apart, only
        self._base = kind_of(entries)
        super().__init__(where, [name for name in self._base.__iter__(entries) if name not in apart])
        self._size = self._base.__len__(entries)

    def get(self, name: Any) -> Any:
        """Return the value of a key."""
        return self._base.get(self.entries, name, NOT_THERE)

    def put_back(self) -> None:
        """Set every key to its remembered value, and remove new keys."""
        entries, base = self.entries, self._base
        get = entries.get if type(entries) is dict else partial(base.get, entries)
        for name, value in self.contents.items():  # not by `get`: there are hundreds of them in a large network
            if get(name, NOT_THERE) is not value:
                base.__setitem__(entries, name, value)
        for name in self._new():
            base.__delitem__(entries, name)

    def changed(self) -> list[str]:
        """Return the keys that are new, or whose value is not the remembered one."""
        return [*super().changed(), *(joined(self.where, name) for name in self._new())]

    def _new(self) -> list[Any]:
        if self.only or self._base.__len__(self.entries) == self._size:
            return []
        names = self._base.__iter__(self.entries)
        return [name for name in names if name not in self.contents and name not in self.apart]


class Attributes(Names):
    """Remembered attributes of a class, or of the slots of an object."""

    def __init__(self, where: str, holder: Any, names: Iterable[str]) -> None:
        self.holder = holder
        super().__init__(where, names)

    def get(self, name: str) -> Any:
        """Return an attribute."""
        return getattr(self.holder, name, NOT_THERE)

    def put(self, name: str, value: Any) -> None:
        """Set an attribute, or delete it."""
        if value is not NOT_THERE:
            (setattr if isinstance(self.holder, type) else object.__setattr__)(self.holder, name, value)
        elif hasattr(self.holder, name):
            object.__delattr__(self.holder, name)


class Cell(Names):
    """Remembered value of a variable that a function shares with its enclosing function."""

    def __init__(self, where: str, cell: CellType) -> None:
        self.cell = cell
        super().__init__(where, [""])

    def get(self, name: str) -> Any:
        """Return the variable's value."""
        try:
            return self.cell.cell_contents
        except ValueError:  # not set yet
            return NOT_THERE

    def put(self, name: str, value: Any) -> None:
        """Set the variable; one that had no value keeps what it has."""
        if value is not NOT_THERE:
            self.cell.cell_contents = value


class Items:
    """Remembered items of a list, a deque, a set or a bytearray."""

    def __init__(self, where: str, container: Any) -> None:
        self._base = kind_of(container)
        self.where, self.container = where, container
        self.items = self._copy()

    def put_back(self) -> None:
        """Replace the container's items with the remembered ones."""
        base = self._base
        if base in (list, bytearray):
            base.__setitem__(self.container, slice(None), self.items)
        else:
            base.clear(self.container)
            (base.update if base is set else base.extend)(self.container, self.items)

    def changed(self) -> list[str]:
        """Return the container's name where its items are not the remembered ones; else no name."""
        found = self._copy()
        if self._base is set:
            return [self.where] if found != self.items else []
        both = zip(found, self.items, strict=False)
        differs = len(found) != len(self.items) or any(differ(one, other) for one, other in both)
        return [self.where] if differs else []

    def _copy(self) -> Any:
        if self._base is deque:  # the method `copy` of a deque calls the subclass
            return deque(deque.__iter__(self.container), self.container.maxlen)
        return self._base.copy(self.container)


class Numbers:
    """Remembered numbers of an array or a tensor; `equal` compares two of its kind."""

    def __init__(self, where: str, array: Any, copy: Any, equal: Callable[[Any, Any], bool]) -> None:
        self.where, self.array, self.copy, self.equal = where, array, copy, equal

    def put_back(self) -> None:
        """Copy the remembered numbers back, if any has changed."""
        if not self.changed():  # to read costs less than to write, and leaves memory shared between processes
            return
        if self.array.shape != self.copy.shape:
            self.array.data = self.copy.clone()
        else:
            (self.array if isinstance(self.array, np.ndarray) else self.array.detach())[...] = self.copy

    def take(self) -> None:
        """Remember the numbers that the array has now."""
        self.copy[...] = self.array if isinstance(self.array, np.ndarray) else self.array.detach()

    def changed(self) -> list[str]:
        """Return the array's name where its numbers are not the remembered ones; else no name."""
        return [] if self.equal(self.array, self.copy) else [self.where]


def differ(one: Any, other: Any) -> bool:
    """Return whether two objects are neither the same nor equal numbers or texts."""
    return one is not other and not (isinstance(one, ATOMS) and type(one) is type(other) and one == other)


def joined(where: str, name: object) -> str:
    """Return the dotted name of an entry of a container."""
    return f"{where}.{name}".strip(".") if isinstance(name, str) else where
