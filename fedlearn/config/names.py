"""What a setting means, and the names that it takes: from the schema and the page of tables; neither imports torch."""

from __future__ import annotations

from typing import Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from fedlearn.config.schema import RunConfig, Settings
from fedlearn.plugins import TABLES


def names_of(setting: str) -> tuple[str, ...]:
    """Return the names that a setting takes, in the order of their table; none of a setting that takes any value.

    >>> names_of("compression.send"), names_of("training.lr")
    (('weights', 'update'), ())
    """
    if setting in TABLES:
        return tuple(TABLES[setting])
    kind = field_of(setting).annotation
    return tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else ()


def field_of(setting: str) -> FieldInfo:
    """Return the declaration of a setting; KeyError if there is none."""
    settings: type[Settings] = RunConfig
    *tables, key = setting.split(".")
    for table in tables:
        kind = settings.model_fields[table].annotation
        assert isinstance(kind, type)
        settings = kind
    return settings.model_fields[key]


def meaning_of(setting: str) -> str:
    """Return the description of a setting in the schema; KeyError if there is no such setting.

    >>> meaning_of("training.batch_size")
    'Examples in one SGD step.'
    """
    return field_of(setting).description or ""
