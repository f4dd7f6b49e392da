"""Marks: what a field of the settings says beside its type, its range and its meaning.

A mark stands in the ``Annotated`` of a field, beside the range. The command line, ``fedlearn settings``, error texts
and `fedlearn.commands.unused_settings` read marks (`names.py`), so that a setting is described where it is declared.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from keyword import iskeyword


class Panel(StrEnum):
    """A heading under which ``--help`` lists flags; the headings stand there in this order."""

    ROUNDS = "Rounds"
    LEARNING = "Data, model, training"
    REPORTS = "Updates"
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
        name = self.name.removeprefix("--").replace("-", "_")
        return f"{name}_" if iskeyword(name) else name


class AlsoCalled(frozenset[str]):
    """Mark a setting with names that people and other frameworks have for it; an error about such a name names it."""


class Moved(dict[str, str]):
    """Mark a table of options with the settings that became options: former name -> where the value belongs now."""


class FreeToChange:
    """Mark a setting that a resumed run may change: it changes no byte of a committed round."""


class ReadBy(StrEnum):
    """Mark a setting that one kind of part alone reads; the value names the part in "it is for ..."."""

    TORCH = "a model of torch"
    TREES = "a model of trees"
    PRIVATE = "a private model"
    NOISE = "a model of sums, as dp-naive-bayes, or privacy.protects = 'nodes'"
    ATTACKS = "an attack, as --attack sign-flip"
    STOPS = "an early stop, by stop.target or stop.patience"
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
