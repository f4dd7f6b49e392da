"""Write and read dealt.json: how many examples of each label each node of a simulation trains on.

It holds numbers alone; the names of classes stand in data.json. Nothing is written for a private model, nor over a
network, where nodes have their own data.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from fedlearn.core.client_facts import CLASS, EXAMPLE, LABEL, TENTH, Dealt
from fedlearn.runs.file_names import DEALT
from fedlearn.runs.files import storing, write_atomically
from fedlearn.runs.safe_reading import read_small

Count = Annotated[int, Field(ge=0, le=2**53)]
_COUNTS = TypeAdapter(Annotated[list[Annotated[list[Count], Field(min_length=1)]], Field(min_length=1)])


def write_dealt(folder: Path, dealt: Dealt) -> None:
    """Write dealt.json."""
    with storing(folder):
        write_atomically(folder / DEALT, json.dumps(asdict(dealt), separators=(",", ":")).encode())


def read_dealt(folder: Path) -> Dealt | None:
    """Return the content of dealt.json; None if there is no such file.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        In one line, if its content is not what a run writes.
    """
    try:
        data = read_small(folder / DEALT)
    except FileNotFoundError:
        return None
    try:
        found = json.loads(data)
        counts = _COUNTS.validate_python(found["counts"], strict=True)
        nodes, what = found["nodes"], found["what"]
    except (ValidationError, ValueError, LookupError, TypeError, RecursionError):
        raise ValueError("it is not what was written") from None
    if what not in (CLASS, LABEL, TENTH, EXAMPLE) or len({len(row) for row in counts}) != 1:
        raise ValueError("it is not what was written: rows of unlike lengths, or an unknown word")
    if type(nodes) is not int or not len(counts[0]) <= nodes <= 2**53:
        raise ValueError("it is not what was written: more clients are counted than there are")
    return Dealt(nodes, what, tuple(map(tuple, counts)))
