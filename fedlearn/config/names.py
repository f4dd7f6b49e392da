"""What is declared of a setting: its name, meaning, flag and other names, and the names of plugins that it takes.

All of it comes from the schema and from the page of tables (`fedlearn.plugins.tables`); neither imports torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Literal, TypeVar, get_args, get_origin

from pydantic.fields import FieldInfo

from fedlearn.config.fields import Settings
from fedlearn.config.marks import AlsoCalled, Flag, FreeToChange, Moved, Panel
from fedlearn.config.schema import RunConfig
from fedlearn.plugins.ranges import in_words
from fedlearn.plugins.tables import TABLES

Mark = TypeVar("Mark")


def setting_names(settings: type[Settings] = RunConfig, prefix: str = "") -> list[str]:
    """Return the dotted names of all settings, in the order of the schema."""
    names: list[str] = []
    for name, field in settings.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Settings):
            names += setting_names(kind, f"{name}.")
        else:
            names.append(f"{prefix}{name}")
    return names


def field_of(setting: str) -> FieldInfo:
    """Return the declaration of a setting; raise KeyError if there is no such setting."""
    settings: type[Settings] = RunConfig
    *tables, key = setting.split(".")
    for table in tables:
        kind = settings.model_fields[table].annotation
        assert isinstance(kind, type)
        settings = kind
    return settings.model_fields[key]


def marks(setting: str, kind: type[Mark]) -> list[Mark]:
    """Return the marks of one kind in the declaration of a setting (`fields.py`)."""
    return [mark for mark in field_of(setting).metadata if isinstance(mark, kind)]


def _marked(kind: type[Mark]) -> Iterator[tuple[str, Mark]]:
    """Yield (setting, mark) for every mark of one kind."""
    for setting in setting_names():
        yield from ((setting, mark) for mark in marks(setting, kind))


def flags() -> dict[str, Flag]:
    """Return setting -> flag of all settings that have one, in the order of ``--help``."""
    panels = list(Panel)
    return dict(sorted(_marked(Flag), key=lambda each: (panels.index(each[1].panel), each[1].is_last)))


def other_names() -> dict[str, str]:
    """Return other name -> setting, of all names that people and other frameworks have for our settings."""
    return {name: setting for setting, names in _marked(AlsoCalled) for name in names}


def moved() -> dict[str, str]:
    """Return former setting -> what to write now, of all settings that became options."""
    tables = [(setting.partition(".")[0], options) for setting, options in _marked(Moved)]
    return {f"{table}.{name}": place for table, options in tables for name, place in options.items()}


def free_to_change() -> set[str]:
    """Return the settings that a resumed run may change."""
    return {setting for setting, _ in _marked(FreeToChange)}


def names_of(setting: str) -> tuple[str, ...]:
    """Return the names that a setting takes, in the order of their table; an empty tuple if it takes any value.

    >>> names_of("compression.send"), names_of("training.lr")
    (('weights', 'update'), ())
    """
    if setting in TABLES:
        return tuple(TABLES[setting])
    kind = field_of(setting).annotation
    return tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else ()


def words_of(setting: str) -> str:
    """Return the type and the range of a setting in words; an empty text if there is no such setting.

    >>> words_of("clients"), words_of("compression.send"), words_of("no.such")
    ('a whole number from 1 to 10,000,000', "'weights' or 'update'", '')
    """
    if setting not in setting_names():
        return ""
    field = field_of(setting)
    return in_words(field.annotation, field.metadata)


def described(setting: str) -> tuple[str, object]:
    """Return the meaning of a setting and its default.

    Names of plugins that the meaning does not mention replace "{names}" in it, or follow it.

    >>> described("training.batch_size")
    ('Examples in one SGD step.', 100)
    """
    field = field_of(setting)
    text = field.description or ""
    names = names_of(setting) if setting in TABLES else ()
    others = ", ".join(each for each in names if not re.search(rf"(?<![\w-]){re.escape(each)}(?![\w-])", text))
    if "{names}" in text or not others:
        return text.replace("{names}", others), field.default
    return f"{text} Also: {others}.", field.default


def hint_at(name: str) -> str:
    """Return what an error adds to "there is no such setting": the name that is like it, else where all stand.

    >>> hint_at("learning_rate"), hint_at("training.learning_rate"), hint_at("zzz")
    ('; did you mean training.lr?', '; did you mean training.lr?', '; fedlearn settings lists them')
    """
    near = meant_by(name)
    return f"; did you mean {near}?" if near else "; fedlearn settings lists them"


def meant_by(name: str) -> str:
    """Return the setting that a wrong name may stand for; an empty text if no setting has a name like it."""
    names = setting_names()
    others = other_names()
    last = name.rpartition(".")[2][:100].lower()
    if last in others:
        return others[last]
    same = [each for each in names if each.rpartition(".")[2] == last]
    close = same or get_close_matches(name[:100], names, n=1, cutoff=0.6)
    if not close and (other := get_close_matches(last, others, n=1, cutoff=0.8)):
        return others[other[0]]
    close = close or get_close_matches(last, [each.rpartition(".")[2] for each in names], n=1, cutoff=0.75)
    return next((each for each in names if close and each in (close[0], f"{each.rpartition('.')[0]}.{close[0]}")), "")
