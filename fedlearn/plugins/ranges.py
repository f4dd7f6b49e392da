"""Types and their ranges in words, as an error and ``fedlearn settings`` say what is expected."""

from __future__ import annotations

import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from fedlearn.core.errors import quoted
from fedlearn.plugins.registry import did_you_mean

KINDS: dict[Any, str] = {
    bool: "true or false", bool | str: "true, false or module:name", int: "a whole number", float: "a number",
    str: "text", Path: "a path",
}  # fmt: skip
CONTAINERS = ((Mapping, "a table, as {NAME = VALUE}"), (str, "text"), (Collection, "a list"), (Sequence, "a list"))
OWN_WORDS = ("value_error", "assertion_error")  # of a check of ours: its text is ours, too


def in_words(kind: Any, metadata: Collection[Any] = ()) -> str:
    """Return what a type takes, with its range; an empty text for a type that has no name.

    >>> from pydantic import Field
    >>> in_words(Annotated[float, Field(gt=0, le=1)]), in_words(Literal["weights", "update"])
    ('a number above 0 and at most 1', "'weights' or 'update'")
    """
    if get_origin(kind) is Annotated:
        inner, *more = get_args(kind)
        return in_words(inner, [*metadata, *more])
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if kind not in KINDS and get_origin(kind) in (Union, types.UnionType):
        several = [in_words(each, metadata) for each in get_args(kind) if each is not type(None)]
        return " or ".join(filter(None, dict.fromkeys(several)))
    return " ".join(filter(None, (_named(kind), _range({name: bound for name, bound in _bounds(metadata)}))))


def _named(kind: Any) -> str:
    if kind in KINDS:
        return KINDS[kind]
    outer = get_origin(kind) or kind
    of_container = (word for each, word in CONTAINERS if isinstance(outer, type) and issubclass(outer, each))
    return next(of_container, f"something of type {outer.__name__}" if isinstance(outer, type) else "")


def _bounds(metadata: Collection[Any]) -> Iterator[tuple[str, str]]:
    for each in metadata:
        if isinstance(each, FieldInfo):
            yield from _bounds(each.metadata)
        for name in ("ge", "gt", "le", "lt"):
            if (bound := getattr(each, name, None)) is not None:
                yield name, f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"


def _range(bounds: Mapping[str, str]) -> str:
    """Return a range in words.

    >>> _range({"ge": "1", "le": "9"}), _range({"ge": "1"}), _range({"ge": "0", "lt": "1"})
    ('from 1 to 9', 'of at least 1', 'of at least 0 and below 1')
    """
    if bounds.keys() == {"ge", "le"}:
        return f"from {bounds['ge']} to {bounds['le']}"
    words = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}
    return " and ".join(f"{word} {bounds[name]}" for name, word in words.items() if name in bounds)


def allowed_by(error: ValidationError, expected: str) -> str:
    """Return what stands behind "NAME = VALUE: " for the first error that pydantic found, in our words."""
    first = error.errors()[0]
    if first["type"] in OWN_WORDS:
        return first["msg"].partition(", ")[2]
    if first["type"] == "finite_number":
        expected = expected.replace("a number", "a finite number")
    return f"expected {expected}" if expected else "it is of a wrong type"


def first_wrong(error: ValidationError, model: type[BaseModel]) -> str:
    """Return the first error in a file of ours in one line: the key, its value, what is expected."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"][:2]))
    field = model.model_fields.get(str(first["loc"][0])) if first["loc"] else None
    if first["type"] == "extra_forbidden":
        near = did_you_mean(place, model.model_fields) or f"; there are {', '.join(model.model_fields)}"
        return f"{place} = {quoted(first['input'])}: there is no such key{near}"
    if first["type"] == "missing":
        return f"{place}: it is missing: give a value"
    if field is None or first["type"] in OWN_WORDS:
        return f"{place}: {allowed_by(error, '')}" if place else allowed_by(error, "")
    form = next((f", of the form {each.pattern}" for each in field.metadata if getattr(each, "pattern", None)), "")
    kind = field.annotation if len(first["loc"]) == 1 else _within(field.annotation)
    return f"{place} = {quoted(first['input'])}: {allowed_by(error, in_words(kind, field.metadata))}{form}"


def _within(kind: Any) -> Any:
    """Return the type of what a container holds."""
    inner = [each for each in get_args(kind) if each is not Ellipsis]
    return inner[-1] if inner else kind
