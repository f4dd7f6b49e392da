"""Names of data sets and partitions that are places: a folder, a file, a name on the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path

from fedlearn import plugins
from fedlearn.data.reading import ending_of, one_line_errors

HUB = "hub:"
MAP_SUFFIXES = (".csv", ".json")
FILE_SUFFIXES = tuple(kind for kind in plugins.DATA_READERS if kind.startswith("."))


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
