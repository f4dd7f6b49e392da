"""What tables of settings are made of: their base, common types, and marks, which say of a field more than its type.

A mark stands in the ``Annotated`` of a field, beside the range. The command line, ``fedlearn settings``, error texts
and `fedlearn.commands.unread` read marks (`names.py`), so that a setting is described where it is declared.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

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
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise ValueError("it is no switch: true and false mean nothing here")
        return value

    @field_validator("*")
    @classmethod
    def _can_be_stored(cls, value: object) -> object:
        """Refuse text that no file could hold."""
        if isinstance(value, str) and ("\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value)):
            raise ValueError("it should be text without NUL, and in UTF-8")
        return value


class Panel(StrEnum):
    """A heading under which ``--help`` lists flags; the headings stand there in this order."""

    ROUNDS = "Rounds"
    LEARNING = "Data, model, training"
    REPORTS = "Reports"
    RUNNING = "Running"


@dataclass(frozen=True, slots=True)
class Flag:
    """Mark a setting that has a flag on the command line; help and default of the flag are the setting's own.

    Parameters
    ----------
    name
        The flag, as ``--lr``.
    metavar
        What stands for the value in ``--help``.
    is_last
        Whether the flag is listed behind the others of its panel; these are in the order of the schema.
    """

    name: str
    metavar: str
    panel: Panel
    is_last: bool = False

    @property
    def parameter(self) -> str:
        """The flag as a name in Python: of the command's parameter, and of the keyword of `fedlearn.run`."""
        return self.name.removeprefix("--").replace("-", "_")


class AlsoCalled(frozenset[str]):
    """Mark a setting with names that people and other frameworks have for it; an error about such a name names it."""


class Moved(dict[str, str]):
    """Mark a table of options with the settings that became options: former name -> where the value belongs now."""


class ReadBy(StrEnum):
    """Mark a setting that one kind of part alone reads; the value names the part in "it is for ..."."""

    TORCH = "a model of torch"
    TREES = "a model of trees"
    PRIVATE = "a private model"
    SUMS = "a model of sums, as dp-naive-bayes"
    DROPS = "a codec that drops entries, as 'drop'"
    DROPS_BY_SETTING = "a codec that drops entries and names no share itself, as 'drop'"


@dataclass(frozen=True, slots=True)
class ReadIf:
    """Mark a setting that is read only where another setting has one of some values.

    Parameters
    ----------
    or_foreign
        Whether a plugin from outside, which has no name in the table of the other setting, may read it, too.

    Examples
    --------
    >>> str(ReadIf("engine.name", ("embedded", "ray")))
    "engine.name = 'embedded' or 'ray'"
    """

    setting: str
    values: tuple[str, ...]
    or_foreign: bool = False

    def __str__(self) -> str:
        """Return what stands behind "it is for"."""
        return f"{self.setting} = {' or '.join(map(repr, self.values))}"
