"""Data sets from files in the form of LEAF (FEMNIST, Shakespeare): users, and the examples of each user.

A file is ``{"users": ["f0001_41", ...], "num_samples": [...], "user_data": {"f0001_41": {"x": [...], "y": [...]}}}``; a
folder holds these files, in ``train`` and ``test`` as LEAF writes them, or alone. In FEMNIST `x` is a list of 784 grey
levels from 0 to 1, of which an image of 28 x 28 bytes is made. In Shakespeare `x` is a text and `y` the next letter,
numbered as in LEAF.

Source: Caldas et al. 2018 (arXiv:1812.01097), https://github.com/TalwalkarLab/leaf.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import DataNotFound, UsageError, quoted
from fedlearn.data.data_folder import identity, one_line
from fedlearn.data.dataset import Dataset
from fedlearn.data.entries import Arrays
from fedlearn.data.kept_arrays import dataset_at, with_facts
from fedlearn.data.reading import one_line_errors, opened
from fedlearn.data.sources.declared import TEST_SHARE, Declared, Given
from fedlearn.data.sources.fitting import with_counted
from fedlearn.data.sources.images import SUFFIXES

LETTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"  # LEAF's ALL_LETTERS
SIDE = 28  # pixels of FEMNIST


@one_line_errors
def from_leaf(path: str | Path, *, classes: int | None = None, test_share: float = TEST_SHARE) -> Dataset:
    """Return a file or folder in LEAF's form as a data set, in which each user is a group.

    Parameters
    ----------
    path
        A .json file, or a folder of .json files, with folders ``train`` and ``test`` or without.
    classes
        Number of classes, if the files lack some: 62 of FEMNIST.
    test_share
        Share of the examples that is held out if there is no folder ``test``.

    Raises
    ------
    DataNotFound
        If there is no .json file.
    UsageError
        With the file, the user and the first wrong example.
    """
    root = Path(path).expanduser().absolute()
    parts = [root / "train", root / "test"] if (root / "train").is_dir() else [root]
    files = [_files_of(part) for part in parts if part.exists()]

    def make() -> Arrays:
        given = [_given(each) for each in files]
        texts = given[0][0].dtype == np.int32
        letters = tuple(LETTERS) if texts else None
        declared = Declared(str(root), classes=letters or classes, vocabulary=len(LETTERS) if texts else None)
        test = given[1] if len(given) > 1 else (None, None, None)
        return with_facts(*declared.checked(given[0], test, test_share=test_share))

    every = [file for each in files for file in each]
    found = dataset_at(str(root), "leaf", f"{identity(*every)}\n{classes=} {test_share=}", make)
    also = ["users", "shape of x"]
    return with_counted(found, classes=classes, vocabulary=found.vocabulary, has_test=len(files) > 1, also=also)


def _files_of(part: Path) -> list[Path]:
    files = sorted(part.glob("*.json")) if part.is_dir() else [part]
    if not files or not files[0].is_file():
        raise DataNotFound(f"{part}: there is no .json file in LEAF's form")
    return files


def _given(files: Sequence[Path]) -> Given:
    """Return X, y and the user of each example of some files."""
    inputs: list[NDArray[Any]] = []
    targets: list[Any] = []
    users: list[str] = []
    for file in files:
        for user, examples in _users_of(file):
            for number, (x, y) in enumerate(zip(*examples, strict=True)):
                inputs.append(_input(x, f"{file}, user {user!r}, example {number}"))
                targets.append(y)
                users.append(user)
                if inputs[-1].shape != inputs[0].shape or inputs[-1].dtype != inputs[0].dtype:
                    found = f"{inputs[-1].shape}, and the first of its part {inputs[0].shape}"
                    raise UsageError(f"{file}, user {user!r}, example {number}: x has shape {found}")
    if not inputs:
        raise UsageError(f"{files[0]}: there are no examples in it")
    return np.stack(inputs), targets, np.array(users)


def _users_of(file: Path) -> Any:
    try:
        with opened(file) as opened_file:
            content = json.load(opened_file)
        users = [(user, content["user_data"][user]) for user in content["users"]]
        pairs = [(str(user), (mine["x"], mine["y"])) for user, mine in users]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        wanted = 'it must be {"users": [...], "user_data": {USER: {"x": [...], "y": [...]}}}'
        raise UsageError(f"{file} is not in LEAF's form: {wanted}; {type(error).__name__} {one_line(error)}") from error
    for user, (x, y) in pairs:
        if not isinstance(x, list) or not isinstance(y, list):
            raise UsageError(f"{file}, user {user!r}: x and y must be lists, one entry for each example")
        if len(x) != len(y):
            raise UsageError(f"{file}, user {user!r}: x has {len(x)} examples and y {len(y)}")
    return pairs


def _input(x: Any, place: str) -> NDArray[Any]:
    if isinstance(x, str) and x.lower().endswith(SUFFIXES):
        raise UsageError(
            f"{place}: x is the name of a picture, {quoted(x)}, and no text: put the pictures into folders, one for "
            "each class, and give the folder (`from_folder`)"
        )
    if isinstance(x, str):
        tokens = np.array([LETTERS.find(letter) for letter in x], np.int32)
        if (tokens < 0).any():
            stranger = x[int(np.flatnonzero(tokens < 0)[0])]
            raise UsageError(f"{place}: the letter {stranger!r} is none of LEAF's {len(LETTERS)} letters")
        return tokens
    try:
        with np.errstate(over="ignore"):
            numbers = np.array(x if isinstance(x, list) else "none", np.float32)
    except (TypeError, ValueError):
        raise UsageError(f"{place}: x must be a text or a list of numbers") from None
    if numbers.shape == (SIDE * SIDE,) and numbers.min() >= 0 and numbers.max() <= 1:
        return np.rint(numbers * 255).astype(np.uint8).reshape(SIDE, SIDE, 1)
    return numbers
