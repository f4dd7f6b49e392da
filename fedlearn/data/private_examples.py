"""The one door by which training that protects records gets its examples.

Neighboring relation: add or remove one record. What is counted on records tells of single ones: a record with a class
of its own makes another model, a permutation of all rows moves every other record, a cell that cannot be read ends the
run. No noise hides any of these. So, wherever the examples came from,

- each record draws by a hash of its own bytes whether it is for training or testing (`drawing.py`);
- a record that is not as declared is left out, and no error tells of it;
- with noise that protects, all that is not a record is declared: by a TOML file (`schema_file.py`), by keywords
  (``classes``, ``vocabulary``, ``size``), or by code that makes a `Dataset` of its fields. Else the run is refused.

Declared and so public are also the kind of numbers, the shape of one example, the names of columns and of groups. Data
sets that come with fedlearn are public. Seeded noise protects nobody, so a study with it may count.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import numpy as np

from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import Examples, joined
from fedlearn.data.dataset import TEST_ROWS, WINDOWS, Dataset
from fedlearn.data.drawing import drawn, each_by_itself, records_are_private, share_held_out
from fedlearn.data.encoded_tables import SPLIT_SEED, TEST_SHARE
from fedlearn.data.kept_arrays import kept
from fedlearn.data.loading import DATASETS, load_dataset
from fedlearn.data.naming import is_path

DECLARE = "`fedlearn declare {file}` writes {written}, which you read and edit: it is then the data set"
IN_PYTHON = "declare them, as from_arrays(X, y, classes=2), or make a fedlearn.data.Dataset of its fields"

OF_WINDOWS = (
    "its examples are windows of rows, and a row is in several of them: to protect examples would not protect rows; "
    "protect all data of a client, by --private nodes"
)


class Protected(Enum):
    """What a run protects, and so whose examples may move whose."""

    NOTHING = "nothing"
    NODES = "nodes"
    RECORDS = "records"


@dataclass(frozen=True, slots=True)
class DataSource:
    """Where the examples of a run come from.

    Parameters
    ----------
    name : str
        As ``data.dataset`` names it.
    folder : str
        The setting ``data.dir``.
    options : str
        The text of ``data.options``.
    """

    name: str
    folder: str = ""
    options: str = ""

    @property
    def is_ours(self) -> bool:
        """Whether the data set comes with fedlearn, so that its rows are public."""
        return self.name in DATASETS

    def read(self, protected: Protected = Protected.NOTHING, *, must_be_declared: bool = False) -> Dataset:
        """Return the examples.

        Parameters
        ----------
        must_be_declared
            Whether the noise protects, so that nothing may be counted on records.

        Raises
        ------
        SettingError
            If records are protected and nobody has declared them; with the command that writes a declaration.
        """
        with _READING[protected]():
            found = load_dataset(self.name, self.folder, options=self.options)
            if protected is not Protected.NOTHING and TEST_ROWS in found.counted:
                found = _divided_by_record(found)
        if protected is Protected.RECORDS and WINDOWS in found.counted:
            raise SettingError("data.dataset", self.name, OF_WINDOWS)
        if protected is Protected.RECORDS and must_be_declared and found.counted and not self.is_ours:
            raise SettingError("data.dataset", self.name, self._undeclared(found))
        return found

    def _undeclared(self, found: Dataset) -> str:
        counted = " and ".join(found.counted)
        why = f"a single record may change its {counted}, which nobody declared, and no noise hides that"
        if not is_path(self.name):
            return f"{why}: {IN_PYTHON}"
        path = Path(self.name)
        written = path.with_suffix(".toml") if path.suffix else f"{path}.toml"
        return f"{why}: {DECLARE.format(file=self.name, written=written)}"


_READING: dict[Protected, Callable[[], AbstractContextManager[None]]] = {
    Protected.NOTHING: nullcontext,
    Protected.NODES: each_by_itself,
    Protected.RECORDS: records_are_private,
}


def _divided_by_record(given: Dataset) -> Dataset:
    """Return a data set whose test rows a permutation chose, with each record drawing its part by itself."""
    rows = joined([given.train, given.test])
    is_test = drawn(rows, seed=SPLIT_SEED, purpose="test split") < share_held_out(TEST_SHARE)
    parts = rows.at(np.flatnonzero(~is_test)), rows.at(np.flatnonzero(is_test))
    mapped = kept(given.name, *parts, {"num_classes": 0, "mean": (), "std": ()})
    counted = tuple(fact for fact in given.counted if fact != TEST_ROWS)
    return replace(given, train=mapped.train, test=mapped.test, fingerprint=mapped.fingerprint, counted=counted)


def with_all_rows(given: Dataset) -> Dataset:
    """Return a data set in which no row is held out for testing; rows that are declared for testing stay apart."""
    if given.test_is_public or not len(given.test):
        return given
    rows = _joined(given.train, given.test)
    mapped = kept(given.name, rows, rows.at(slice(0, 0)), {"num_classes": 0, "mean": (), "std": ()})
    return replace(given, train=mapped.train, test=mapped.test)  # the fingerprint is of both parts anyway


def _joined(train: Examples, test: Examples) -> Examples:
    groups = None if train.groups is None or test.groups is None else np.concatenate([train.groups, test.groups])
    return Examples(np.concatenate([train.inputs, test.inputs]), np.concatenate([train.targets, test.targets]), groups)
