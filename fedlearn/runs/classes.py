"""classes.json: which class the model of a run takes for which; its writer and its reader.

It is written when a run has completed whose model tells classes apart, from the evaluations on the test set that the
rounds have made anyway.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError

from fedlearn.runs.files import storing, write_atomically
from fedlearn.runs.names import CLASSES
from fedlearn.runs.reading import read_small
from fedlearn.words.errors import printable

LONGEST_NAME = 100  # letters of a class's name that are shown

Count = Annotated[int, Field(ge=0, le=2**53)]


@dataclass(frozen=True, slots=True)
class Confusion:
    """Test examples by class and by what the model took them for.

    Parameters
    ----------
    round_number
        After which round.
    confusion
        A row for each class, a column for each class that it was taken for.
    """

    round_number: Count
    confusion: list[list[Count]]

    @classmethod
    def of(cls, round_number: int, counts: NDArray[np.int64]) -> Confusion:
        """Return it of a (K, K) array."""
        return cls(round_number, counts.tolist())

    @property
    def counts(self) -> NDArray[np.int64]:
        """The (K, K) array."""
        return np.array(self.confusion, np.int64)


@dataclass(frozen=True, slots=True)
class ClassResults:
    """What classes.json says: the names of the classes, and the confusion of the final and of the best state."""

    classes: Annotated[list[str], Field(min_length=2, max_length=1000)]
    final: Confusion
    best: Confusion | None = None


_SCHEMA = TypeAdapter(ClassResults)


def write_classes(folder: Path, results: ClassResults) -> None:
    """Store the results."""
    with storing(folder):
        write_atomically(folder / CLASSES, json.dumps(asdict(results)).encode())


def read_classes(folder: Path) -> ClassResults | None:
    """Return the results; None where there are none.

    Raises
    ------
    OSError
        If the file is none that can be read.
    ValueError
        In one line, if it is not what was written.
    """
    try:
        data = read_small(folder / CLASSES)
    except FileNotFoundError:
        return None
    try:
        found = _SCHEMA.validate_json(data, strict=True)
    except ValidationError as error:
        raise ValueError(f"it is not what was written: {error.errors()[0]['msg']}") from None
    size = len(found.classes)
    for each in (found.final, found.best):
        if each is not None and [len(row) for row in each.confusion] != [size] * size:
            raise ValueError(f"a matrix of {size} classes should have {size} rows and columns")
    return ClassResults(names_of(found.classes), found.final, found.best)


def names_of(classes: Sequence[str]) -> list[str]:
    """Return names that a page can take."""
    return [printable(name)[:LONGEST_NAME] for name in classes]
