"""Tell paths from other names of data sets and partitions, and bring names into the form in which they are compared."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from unicodedata import normalize

from fedlearn.data.reading import ending_of, one_line_errors
from fedlearn.plugins import tables

HUB = "hub:"
MAP_SUFFIXES = (".csv", ".json")
FILE_SUFFIXES = tuple(kind for kind in tables.DATA_READERS if kind.startswith("."))


@one_line_errors
def is_path(name: str) -> bool:
    """Return whether the name of a data set can only be a file, a folder, or a name on the Hub.

    >>> [is_path(name) for name in ("houses.csv", "mylab.letters:load", "lab/letters.py:load", "lab/letters")]
    [True, False, False, True]
    """
    path = Path(name)
    if path.suffix.startswith(".py:"):  # a function in a file
        return False
    is_place = path.is_dir() or ending_of(path) in FILE_SUFFIXES
    return name.startswith(HUB) or is_place or "/" in name.partition(":")[0] or name == "."


def is_map(name: str) -> bool:
    """Return whether a partition is the path of a file with the node of each example."""
    return name.endswith(MAP_SUFFIXES)


def in_one_form(text: object) -> str:
    r"""Return a name in Unicode's composed form: an accented letter may be written as one sign or as two.

    >>> in_one_form("cafe\u0301") == "caf\u00e9"
    True
    """
    return normalize("NFC", str(text))


def plain_name(name: object) -> str:
    """Return the name of a column as columns are compared: in one form, without blanks around it."""
    return in_one_form(name).strip()


def spelled(name: str, names: Iterable[str]) -> str:
    """Return the one of some names of columns that is this name, as it is written there; the name itself if none is."""
    return next((each for each in names if plain_name(each) == plain_name(name)), name)
