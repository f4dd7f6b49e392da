"""A folder of pictures, one folder for each class, as torchvision's ImageFolder has them.

```text
flowers/train/rose/1.png      or, without train and test,      flowers/rose/1.png
flowers/test/rose/2.png       a fixed fifth is for testing     flowers/tulip/2.png
```
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedlearn.data.base import Dataset
from fedlearn.data.cache import Arrays
from fedlearn.data.folder import identity
from fedlearn.data.sources.declared import TEST_SHARE, Declared, Given
from fedlearn.data.sources.images import SUFFIXES, Size, decoded
from fedlearn.data.stored import dataset_at, with_facts
from fedlearn.errors import DataNotFound, UsageError

TEST_FOLDERS = ("test", "val", "valid", "validation")


def from_folder(folder: str | Path, *, size: Size | None = None, test_share: float = TEST_SHARE) -> Dataset:
    """Return the pictures in a folder; their classes are called as the folders they are in.

    Parameters
    ----------
    folder
        With folders ``train`` and ``test`` (or ``val``) of one folder for each class, or with these alone.
    size
        (height, width) in pixels to which all are scaled; without it, they must be alike.
    test_share
        Share that is held out where there is no folder for testing.

    Raises
    ------
    UsageError
        With the path of the first picture that cannot be read or differs in size.
    """
    root = Path(folder).expanduser().absolute()
    if not root.is_dir():
        raise DataNotFound(f"{root}: there is no such folder")
    train = root / "train" if (root / "train").is_dir() else root
    test = next((root / name for name in TEST_FOLDERS if train != root and (root / name).is_dir()), None)
    classes = tuple(sorted(each.name for each in train.iterdir() if each.is_dir() and not each.name.startswith(".")))
    if len(classes) < 2:
        raise UsageError(
            f"{train}: it must hold a folder of pictures for each class, two at least; it has {len(classes)}"
        )
    files = {part: _files_of(part) for part in (train, test) if part is not None}

    def make() -> Arrays:
        declared = Declared(str(root), classes=classes)
        given: list[Given] = [
            _given(part, files[part], size) if part is not None else (None,) * 3 for part in (train, test)
        ]
        return with_facts(*declared.checked(given[0], given[1], test_share=test_share))

    every = [path for paths in files.values() for path in paths]
    return dataset_at(str(root), "folder", f"{identity(*every)}\n{size=} {test_share=}", make)


def _files_of(part: Path) -> list[Path]:
    files = sorted(path for path in part.glob("*/**/*") if path.suffix.lower() in SUFFIXES)
    if not files:
        raise UsageError(f"{part}: there are no pictures in its folders ({', '.join(SUFFIXES)})")
    return files


def _given(part: Path, files: list[Path], size: Size | None) -> Given:
    labels = np.array([path.relative_to(part).parts[0] for path in files])
    return decoded(files, [str(path) for path in files], size), labels, None
