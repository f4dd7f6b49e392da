"""What tables of settings are made of: their base class, and types that several settings have.

Flower's run config holds no tables and no lists, so options and lists of names are stored as one JSON text each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from math import isfinite, nan
from typing import Annotated, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, WithJsonSchema, field_validator

UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)
PART = re.compile(rf"({NUMBER.pattern})([dhms])", re.ASCII)
DURATION = re.compile("".join(rf"(?:{NUMBER.pattern}{unit})?" for unit in UNITS), re.ASCII)

NO_JSON = "it cannot be stored as JSON: give finite numbers, texts, true or false, and lists and tables of them"

OR_TABLE, OR_LIST, OR_NUMBER = (
    WithJsonSchema({"type": ["string", kind]}) for kind in ("object", "array", "number")
)  # what a file may hold in place of the text that is stored

Share = Annotated[float, Field(gt=0, le=1)]
Seconds = Annotated[float, Field(gt=0, le=30 * 24 * 3600)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseModel):
    """A closed, frozen table of settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _is_a_switch(cls, value: object, info: ValidationInfo) -> object:
        """Refuse true and false where a number is wanted: pydantic would take them for 1 and 0."""
        kind = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and bool not in (kind, *get_args(kind)):
            raise ValueError("it is no switch: write a number or a text, not true or false")
        return value

    @field_validator("*")
    @classmethod
    def _can_be_stored(cls, value: object) -> object:
        """Refuse text that no file could hold."""
        if isinstance(value, str) and ("\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value)):
            raise ValueError("it should be text without NUL, and in UTF-8")
        return value


def as_text(given: object, *, in_order: bool = False) -> str:
    """Return a table of options, or a JSON text of one, as the text that is stored: equal options have equal texts.

    Parameters
    ----------
    in_order
        Whether the order of the table has a meaning, and is kept; else options are sorted by name.

    Examples
    --------
    >>> as_text('{"trim":0.2}') == as_text({"trim": 0.2})
    True
    >>> as_text({})
    ''
    """
    table = given
    if isinstance(given, str):
        try:
            table = json.loads(given or "{}")
        except (ValueError, RecursionError):
            raise ValueError('it is no JSON object: write it as {"NAME": VALUE}') from None
    if not isinstance(table, Mapping):
        raise ValueError('it is no table of options: write it as {"NAME": VALUE}')
    try:
        return json.dumps(dict(table), sort_keys=not in_order, allow_nan=False) if table else ""
    except (TypeError, ValueError, RecursionError):
        raise ValueError(NO_JSON) from None


def as_text_or_path(given: object) -> str:
    """Return a table of options as the text that is stored; any other text, which is a path, as it is.

    >>> as_text_or_path({"age": [40, 10]}), as_text_or_path("runs/stats")
    ('{"age": [40, 10]}', 'runs/stats')
    """
    return given if isinstance(given, str) and not given.lstrip().startswith("{") else as_text(given)


def as_list(given: object) -> str:
    """Return a list of names, each alone or with its options, as the JSON text that is stored.

    >>> as_list("a:b, c:d") == as_list(["a:b", "c:d"]) == '["a:b", "c:d"]'
    True
    >>> as_list([{"a:B": {"norm": 1.0}}])
    '[{"a:B": {"norm": 1.0}}]'
    """
    listed = given
    if isinstance(given, str):
        try:
            listed = json.loads(given) if given.lstrip().startswith("[") else given.split(",")
        except (ValueError, RecursionError):
            raise ValueError('it is no JSON list: write it as ["NAME", "NAME"]') from None
    if not isinstance(listed, list):
        raise ValueError('it is no list: write it as ["module:name", {"module:Class": {"option": 1.0}}]')
    entries = [entry.strip() if isinstance(entry, str) else entry for entry in listed]
    for entry in entries:
        if not isinstance(entry, str) and not (isinstance(entry, dict) and len(entry) == 1):
            raise ValueError(
                'each is a name, or a table of one name and its options: {"module:Class": {"option": 1.0}}'
            )
    entries = [entry for entry in entries if entry]
    try:
        return json.dumps(entries, allow_nan=False) if entries else ""
    except (TypeError, ValueError):
        raise ValueError(NO_JSON) from None


def as_numbers(given: object) -> str:
    """Return a list of whole numbers from 0 as the JSON text that is stored, each once and in order.

    >>> as_numbers([17, 3]) == as_numbers("3, 17") == as_numbers("[17, 3, 3]") == "[3, 17]"
    True
    >>> as_numbers([]), as_numbers(4)
    ('', '[4]')
    """
    words = re.split(r"[\[\],\s]+", str(given)) if isinstance(given, str | int) else given
    numbers = {-1}
    if isinstance(words, list | tuple):
        with suppress(TypeError, ValueError):
            numbers = {int(each) for each in words if each != ""}
    if any(each < 0 for each in numbers):
        raise ValueError("write whole numbers from 0, such as [3, 17]")
    return json.dumps(sorted(numbers)) if numbers else ""


def as_number_text(given: object) -> str:
    """Return a number as the text that is stored, as Flower's run config holds no empty number; an empty text is none.

    >>> as_number_text(0.90), as_number_text("1e-3"), as_number_text("")
    ('0.9', '0.001', '')
    """
    if given == "":
        return ""
    number = nan
    with suppress(ValueError, OverflowError):
        number = float(given) if isinstance(given, str | int | float) else nan
    if not isfinite(number):
        raise ValueError("write a number, or leave it empty")
    return repr(number)


def as_duration(given: object) -> str:
    """Return a duration as the text that is stored; a plain number is one of seconds.

    >>> as_duration("1h 30m"), as_duration(90), as_duration("")
    ('1h30m', '90s', '')
    """
    text = "".join(str(given).split()).lower()
    text += "s" if NUMBER.fullmatch(text) else ""
    if not DURATION.fullmatch(text):
        raise ValueError("write a duration, such as 50m, 1h30m or 90s, or leave it empty")
    return text


def as_switch_or_name(given: object) -> object:
    """Return true or false of their texts, and ``module:name`` as it is.

    >>> as_switch_or_name("true"), as_switch_or_name("lab:flipped")
    (True, 'lab:flipped')
    """
    if isinstance(given, bool) or (isinstance(given, str) and ":" in given):
        return given
    switches = {"true": True, "false": False}
    if str(given).lower() not in switches:
        raise ValueError("write true, false or module:name")
    return switches[str(given).lower()]


def seconds_in(duration: str) -> float:
    """Return the seconds of a duration.

    >>> seconds_in("1h30m"), seconds_in("")
    (5400.0, 0.0)
    """
    return float(sum(float(number) * UNITS[unit] for number, unit in PART.findall(duration)))


Options = Annotated[str, BeforeValidator(as_text), OR_TABLE]
SwitchOrName = Annotated[bool | str, BeforeValidator(as_switch_or_name)]
TableOrPath = Annotated[str, BeforeValidator(as_text_or_path), OR_TABLE]
Duration = Annotated[str, BeforeValidator(as_duration), OR_NUMBER]
MaybeNumber = Annotated[str, BeforeValidator(as_number_text), OR_NUMBER]
Names = Annotated[str, BeforeValidator(as_list), OR_LIST]
Numbers = Annotated[str, BeforeValidator(as_numbers), OR_LIST]
Steps = Annotated[str, BeforeValidator(partial(as_text, in_order=True)), OR_TABLE]
