"""Write and read classes.json: how often a run's model takes one class for another.

The file is written when the run of a classifier has ended, from the evaluations on the test set that the rounds
have made anyway.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedlearn.core.errors import printable
from fedlearn.runs.file_names import CLASSES
from fedlearn.runs.files import storing, write_atomically
from fedlearn.runs.safe_reading import read_as

LONGEST_NAME = 100  # letters of a class's name that are shown

Count = Annotated[int, Field(ge=0, le=2**53)]


@dataclass(frozen=True, slots=True)
class Confusion:
    """Numbers of test examples, by true class and by the class that the model predicted.

    Parameters
    ----------
    round_number
        The round after which the state was evaluated.
    confusion
        A row for each true class, a column for each predicted class.
    """

    round_number: Count
    confusion: list[list[Count]]

    @classmethod
    def of(cls, round_number: int, counts: NDArray[np.int64]) -> Confusion:
        """Return the confusion of a (K, K) array of counts."""
        return cls(round_number, counts.tolist())

    @property
    def counts(self) -> NDArray[np.int64]:
        """The numbers as a (K, K) array."""
        return np.array(self.confusion, np.int64)


@dataclass(frozen=True, slots=True)
class ClassResults:
    """The content of classes.json: names of the classes, and the confusion of the final and of the best state."""

    classes: Annotated[list[str], Field(min_length=2, max_length=1000)]
    final: Confusion
    best: Confusion | None = None


def write_classes(folder: Path, results: ClassResults) -> None:
    """Write classes.json."""
    with storing(folder):
        write_atomically(folder / CLASSES, json.dumps(asdict(results)).encode())


def read_classes(folder: Path) -> ClassResults | None:
    """Return the content of classes.json; None if there is no such file.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        In one line, if its content is not what a run writes.
    """
    if (found := read_as(ClassResults, folder / CLASSES)) is None:
        return None
    size = len(found.classes)
    for each in (found.final, found.best):
        if each is not None and [len(row) for row in each.confusion] != [size] * size:
            raise ValueError(f"a matrix of {size} classes should have {size} rows and columns")
    return ClassResults(names_of(found.classes), found.final, found.best)


def names_of(classes: Sequence[str]) -> list[str]:
    """Return names of classes as a page can show them: printable and not too long."""
    return [printable(name)[:LONGEST_NAME] for name in classes]
