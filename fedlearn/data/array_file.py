"""The small TOML file that declares what is public about arrays or pictures.

```toml
data = "scans.npz"        # or a folder of pictures; beside this file, unless the path is absolute
classes = 3               # a number or names, ["healthy", "ill"]; 0 of a regression
vocabulary = 5000         # of tokens
size = [64, 64]           # of pictures, to which they are scaled
test = "public.npz"       # public examples for testing, of the same kind
validation = "chosen.npz" # beside test: public validation rows
```

A table is declared by its columns (`schema_file.py`).
"""

from __future__ import annotations

import tomllib
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedlearn.core.errors import DataNotFound, UsageError
from fedlearn.data.data_spec import joined
from fedlearn.data.dataset import Dataset
from fedlearn.data.drawing import nothing_held_out, records_are_private
from fedlearn.data.reading import ending_of, text_of
from fedlearn.data.schema_file import wrong_validation
from fedlearn.data.sources.image_folder import from_folder
from fedlearn.data.sources.npz import from_npz
from fedlearn.data.validation import OWN_ROWS
from fedlearn.plugins.ranges import first_wrong

ARRAYS = ".npz"
Side = Annotated[int, Field(gt=0)]
Number = Annotated[float, Field(allow_inf_nan=False)]


class _ArrayFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str
    classes: Annotated[int, Field(ge=0)] | tuple[str, ...]
    vocabulary: Annotated[int, Field(gt=1)] | None = None
    size: tuple[Side, Side] | None = None
    mean: Number | tuple[Number, ...] | None = None
    std: Number | tuple[Number, ...] | None = None
    test: str = ""
    validation: str = ""


def is_of_arrays(path: Path) -> bool:
    """Return whether a TOML file declares arrays or pictures; a file that cannot be read as TOML does not."""
    try:
        data = path.parent / str(tomllib.loads(text_of(path)).get("data", ""))
    except (tomllib.TOMLDecodeError, RecursionError):
        return False
    return data.suffix.lower() == ARRAYS or (data.is_dir() and data != path.parent)


def load_array_file(path: Path) -> Dataset:
    """Return the arrays or pictures that a TOML file declares; records that are not so are left out.

    Raises
    ------
    DataNotFound
        If a file that it names is not there.
    UsageError
        If it says something wrong, or too little; in one line.
    """
    declared = _read(path)
    with records_are_private():
        if not declared.test:
            return replace(_examples_of(path, declared.data, declared), name=str(path))
        with nothing_held_out():
            names = {part: name for part in ("data", "validation", "test") if (name := getattr(declared, part))}
            found = {part: _examples_of(path, name, declared) for part, name in names.items()}
    rows = found.pop("data")
    for part, other in found.items():
        if rows.spec.shape != other.spec.shape:
            shapes = f"examples of data are {rows.spec.shape}, and of {part} {other.spec.shape}"
            raise UsageError(f"{path}: {shapes}: give one shape")
    own = len(found["validation"].train) if "validation" in found else 0
    prints = " ".join([rows.fingerprint, *(other.fingerprint for other in found.values())])
    return replace(
        rows,
        name=str(path),
        test=joined([other.train for other in found.values()]) if own else found["test"].train,
        test_is_public=True,
        fingerprint=sha256(prints.encode()).hexdigest()[: len(rows.fingerprint)],
        validation=own,
        notice="; ".join(
            filter(None, [rows.notice, OWN_ROWS.format(path.parent / declared.validation) if own else ""])
        ),
    )


def _read(path: Path) -> _ArrayFile:
    try:
        found = _ArrayFile.model_validate(tomllib.loads(text_of(path)))
    except ValidationError as error:
        raise UsageError(f"{path}: {first_wrong(error, _ArrayFile)}") from None
    if wrong := wrong_validation(found.data, found.test, found.validation):
        raise UsageError(f"{path}: {wrong}")
    return found


def _examples_of(path: Path, name: str, declared: _ArrayFile) -> Dataset:
    place = path.parent / name
    if not place.exists():
        raise DataNotFound(f"{path}: there is no file or folder {place}")
    found = _arrays(place, declared) if ending_of(place) == ARRAYS else _pictures(path, place, declared)
    if found.counted:
        wanted = " and ".join(found.counted)
        raise UsageError(f"{path}: declare the {wanted} of {place}, so that no record changes them")
    return found


def _arrays(place: Path, declared: _ArrayFile) -> Dataset:
    given: dict[str, Any] = {name: getattr(declared, name) for name in ("classes", "vocabulary", "mean", "std")}
    return from_npz(place, **given)


def _pictures(path: Path, place: Path, declared: _ArrayFile) -> Dataset:
    if isinstance(declared.classes, int):
        raise UsageError(
            f"{path}: classes = {declared.classes}: the classes of pictures are names of folders: list them"
        )
    return from_folder(place, size=declared.size, classes=declared.classes)
