"""Data sets from a folder of pictures, with one folder for each class, as for torchvision's ImageFolder.

```text
flowers/train/rose/1.png      or, without train and test,      flowers/rose/1.png
flowers/test/rose/2.png       a fixed fifth is for testing     flowers/tulip/2.png
```
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedlearn.core.errors import DataNotFound, UsageError
from fedlearn.data.data_folder import identity
from fedlearn.data.dataset import Dataset
from fedlearn.data.drawing import leaves_unfit_out
from fedlearn.data.entries import Arrays
from fedlearn.data.kept_arrays import dataset_at, with_facts
from fedlearn.data.naming import in_one_form
from fedlearn.data.reading import one_line_errors
from fedlearn.data.sources.declared import TEST_SHARE, Declared, Given
from fedlearn.data.sources.fitting import with_counted
from fedlearn.data.sources.images import READING, SUFFIXES, Size, decoded, readable
from fedlearn.data.validation import OWN_ROWS

OF_OTHERS = ("__MACOSX", "@eaDir", "#recycle", "$RECYCLE.BIN", "System Volume Information", "lost+found")
"""Folders of copies, thumbnails and waste that systems make, beside folders whose names begin with a dot."""
TEST_FOLDERS = ("test", "val", "valid", "validation")


@one_line_errors
def from_folder(
    folder: str | Path,
    *,
    size: Size | None = None,
    classes: tuple[str, ...] | None = None,
    test_share: float = TEST_SHARE,
) -> Dataset:
    """Return the pictures in a folder as a data set; the class of a picture is the name of its folder.

    Hidden files and folders are left out (``.ipynb_checkpoints``, ``._1.png``, ``__MACOSX``): they hold copies.

    Parameters
    ----------
    folder
        Path of a folder with ``train`` and ``test`` (or ``val``), each with a folder for each class; or with a folder
        for each class itself. With both, ``val`` holds validation rows (``data.validation_share``).
    size
        (height, width) in pixels to which all pictures are scaled; without it, all must be of one size.
    classes
        Names of all classes, in the order of their numbers, if a node with data of its own may lack a class.
    test_share
        Share of the pictures that is held out if there is no folder for testing.

    Raises
    ------
    DataNotFound
        If there is no such folder.
    UsageError
        With the path of the first picture that cannot be read or differs in size.
    """
    root = Path(folder).expanduser().absolute()
    if not root.is_dir():
        raise DataNotFound(f"{root}: there is no such folder")
    train = root / "train" if (root / "train").is_dir() else root
    tests = [root / name for name in TEST_FOLDERS if train != root and (root / name).is_dir()]
    test = tests[0] if tests else None
    has_own = len(tests) > 1 and tests[0].name == TEST_FOLDERS[0] and not leaves_unfit_out()  # else none can be counted
    own = tests[1] if has_own else None
    found = tuple(sorted(each.name for each in train.iterdir() if not _is_hidden(each.name) and each.is_dir()))
    if len(classes or found) < 2:
        raise UsageError(
            f"{train}: it must hold a folder of pictures for each class, two at least; it has {len(found)}"
        )
    files = {part: _files_of(part) for part in (train, own, test) if part is not None}

    def make() -> Arrays:
        declared = Declared(str(root), classes=classes or [*dict.fromkeys(map(_shown, found))])
        given: list[Given] = [
            _given(part, files[part], size) if part is not None else (None,) * 3 for part in (train, test)
        ]
        if own is not None:
            given[1] = _both(_given(own, files[own], size), given[1], own)
        return with_facts(*declared.checked(given[0], given[1], test_share=test_share))

    every = [path for paths in files.values() for path in paths]
    key = f"{identity(*every)}\n{size=} {classes=} {test_share=} {READING=}"
    found_in = dataset_at(str(root), "folder", key, make)
    also = [] if size else ["size of the pictures"]
    if own is not None:
        said = "; ".join(filter(None, [found_in.notice, OWN_ROWS.format(own)]))
        found_in = replace(found_in, validation=len(files[own]), notice=said)
    return with_counted(found_in, classes=classes, vocabulary=None, has_test=test is not None, also=also)


def _both(own: Given, test: Given, folder: Path) -> Given:
    """Return the pictures of the validation rows before those of the test rows."""
    (X, y, _), (X_test, y_test, _) = own, test
    if X.shape[1:] != X_test.shape[1:]:
        raise UsageError(f"{folder}: its pictures have another size than those for testing: give size=(HEIGHT, WIDTH)")
    return np.concatenate([X, X_test]), np.concatenate([y, y_test]), None


def _files_of(part: Path) -> list[Path]:
    files = sorted(path for each in part.iterdir() if not _is_hidden(each.name) for path in pictures_below(each))
    if not files:
        raise UsageError(f"{part}: there are no pictures in its folders ({', '.join(SUFFIXES)})")
    return files


def pictures_below(folder: Path) -> Iterator[Path]:
    """Yield the pictures in a folder of a class, at any depth, without copies that other programs keep there."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        yield from (Path(place, name) for name in names if _is_picture(name))


def _is_picture(name: str) -> bool:
    return name.lower().endswith(SUFFIXES) and not _is_hidden(name)


def _is_hidden(name: str) -> bool:
    """Return whether a file or folder is hidden or made by the system, and so holds none of the user's pictures.

    >>> [_is_hidden(name) for name in ("rose", ".ipynb_checkpoints", "._1.png", "__MACOSX")]
    [False, True, True, True]
    """
    return name.startswith(".") or name in OF_OTHERS


def _shown(name: str) -> str:
    """Return the name of a folder as a text in one form, even if it is no UTF-8."""
    return in_one_form(os.fsencode(name).decode("utf-8", "backslashreplace"))


def _given(part: Path, files: list[Path], size: Size | None) -> Given:
    labels = np.array([_shown(path.relative_to(part).parts[0]) for path in files])
    if leaves_unfit_out():
        return *readable(files, labels, size), None
    return decoded(files, [str(path) for path in files], size), labels, None
