"""Messages as bytes, without the vector of a masked report; and back, checked against the types that they must have.

The bytes are a line of JSON, and behind it all bytes of the message one after another; their lengths are in the line.
"""

from __future__ import annotations

import json
import types
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from fedlearn.core.errors import FedlearnError, Refused

T = TypeVar("T")


def to_bytes(message: object) -> bytes:
    """Return a message as bytes; equal messages give equal bytes."""
    blob: list[bytes] = []
    line = json.dumps(_plain(message, blob), separators=(",", ":"))
    return line.encode() + b"\n" + b"".join(blob)


def from_bytes(kind: type[T], data: bytes) -> T:
    """Return the message of a kind that `to_bytes` has written.

    Raises
    ------
    Refused
        If the bytes hold anything else.
    """
    line, _, blob = data.partition(b"\n")
    rest = _Rest(blob)
    try:
        found: T = _typed(kind, json.loads(line), rest)
    except (FedlearnError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Refused("undecodable", f"no message of the kind {kind.__name__}: {error}") from None
    if rest.data:
        raise Refused("undecodable", f"bytes behind a message of the kind {kind.__name__}")
    return found


def from_any(kinds: Sequence[type[T]], data: bytes) -> T:
    """Return the message of the first of some kinds that the bytes hold; raise `Refused` if they hold none of them."""
    for kind in kinds[:-1]:
        with suppress(Refused):
            return from_bytes(kind, data)
    return from_bytes(kinds[-1], data)


def from_same(kind: type[T], data: bytes) -> T:
    """Return what `from_bytes` returns, of bytes that many nodes of one process are sent alike; it is shared."""
    found: T = _kept(cast(Hashable, kind), data)
    return found


@lru_cache(maxsize=8)
def _kept(kind: Any, data: bytes) -> Any:
    return from_bytes(kind, data)


class _Rest:
    """The bytes that are still to be read."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.data):
            raise ValueError("fewer bytes than its line says")
        found, self.data = self.data[:count], self.data[count:]
        return found


def _plain(value: Any, blob: list[bytes]) -> Any:
    if isinstance(value, bytes):
        blob.append(value)
        return len(value)
    if isinstance(value, int | str):
        return value
    if is_dataclass(value):
        kind: Any = type(value)
        return [_plain(getattr(value, name), blob) for name in _names(kind)]
    if isinstance(value, Mapping):
        return [[key, _plain(value[key], blob)] for key in sorted(value)]
    if isinstance(value, tuple):
        return [_plain(each, blob) for each in value]
    return value


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _typed(kind: Any, value: Any, rest: _Rest) -> Any:
    if kind is bytes:
        return rest.take(_typed(int, value, rest))
    if kind in (int, str, bool):
        if type(value) is not kind:
            raise ValueError(f"{type(value).__name__} where {kind.__name__} is due")
        return value
    if not isinstance(value, list):
        raise ValueError(f"{type(value).__name__} where a list is due")
    if is_dataclass(kind):
        named, hints = zip(fields(kind), value, strict=True), _hints(kind)  # type: ignore[arg-type]
        return kind(*(_typed(hints[each.name], part, rest) for each, part in named))  # type: ignore[operator]
    return _typed_many(kind, value, rest)


def _typed_many(kind: Any, value: list[Any], rest: _Rest) -> Any:
    arguments = get_args(kind)
    if get_origin(kind) is tuple:
        kinds = [arguments[0]] * len(value) if arguments[-1] is ... else arguments
        return tuple(_typed(each, part, rest) for each, part in zip(kinds, value, strict=True))
    if get_origin(kind) is Mapping:
        found = {_typed(arguments[0], key, rest): _typed(arguments[1], part, rest) for key, part in value}
        if len(found) < len(value):
            raise ValueError("an entry stands twice")
        return types.MappingProxyType(found)
    raise TypeError(f"no message holds a {kind}")
