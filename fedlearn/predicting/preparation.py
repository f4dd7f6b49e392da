"""How rows become what a model takes, by facts in a run folder: columns, categories, ranges, sizes, letters."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from fedlearn.config import RunConfig
from fedlearn.core.errors import UsageError
from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.data.encoded_tables import encoded, encoded_features
from fedlearn.data.filling import padded
from fedlearn.data.reading import one_line_of, text_of
from fedlearn.data.sources.as_arrays import columns_of
from fedlearn.data.sources.column_values import Columns, values_of
from fedlearn.data.sources.forms import is_hf
from fedlearn.data.sources.frame_columns import columns_named, declared_columns
from fedlearn.data.sources.hidden import has_mask
from fedlearn.data.sources.images import decoded
from fedlearn.data.sources.like import examples_like
from fedlearn.data.sources.table_files import Dialect
from fedlearn.predicting import letters, named_rows, pictures
from fedlearn.predicting.lost import Lost
from fedlearn.runs.files import write_atomically

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1  # version of a saved preparation
PLAIN = Dialect()
log = logging.getLogger("fedlearn")


@dataclass(frozen=True, slots=True)
class Preparation:
    """How new rows are prepared for a model, exactly as the rows that it was trained on.

    Parameters
    ----------
    spec : DataSpec
        The public facts of the run's data: names of columns, categories, ranges, classes, sizes.
    dialect : Dialect, optional
        How CSV files are written, unless another dialect is given for a file.

    Examples
    --------
    >>> from fedlearn.data.data_spec import TableSchema
    >>> schema = TableSchema("sick", {"age": (0, 120)}, {"job": ("clerk", "farmer")}, classes=("no", "yes"))
    >>> preparation = Preparation(DataSpec("people", (2,), "float64", classes=2, table=schema))
    >>> preparation.arrays([{"job": "farmer", "age": 30}, {"job": None, "age": None}]).tolist()
    [[30.0, 1.0], [nan, nan]]
    """

    spec: DataSpec
    dialect: Dialect = PLAIN

    @classmethod
    def of(cls, spec: DataSpec, config: RunConfig) -> Self:
        """Return the preparation of a run; its CSV files are read as the run's own was."""
        options = json.loads(config.data.options or "{}")
        known = [each.name for each in fields(Dialect)]
        return cls(spec, Dialect(**{name: options[name] for name in known if isinstance(options.get(name), str)}))

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Return the preparation in a file that `save` has written.

        Raises
        ------
        UsageError
            If the file holds none.
        """
        try:
            found = json.loads(text_of(Path(path)))
            dialect = TypeAdapter(Dialect).validate_python(found["dialect"])
            return cls(TypeAdapter(DataSpec).validate_python(found["spec"]), dialect)
        except (ValueError, ValidationError, LookupError, TypeError, RecursionError):
            raise UsageError(f"{path}: it is no preparation that run.preparation.save has written") from None

    def save(self, path: str | Path) -> Path:
        """Write the preparation to a file of JSON; return its path."""
        about = {"format": FORMAT, "spec": asdict(self.spec), "dialect": asdict(self.dialect)}
        write_atomically(Path(path), json.dumps(about, indent=2).encode())
        return Path(path)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that the model has learned from, in its order; empty if they have no names."""
        return self.spec.table.features if self.spec.table is not None else self.spec.feature_names

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes in the order of the probabilities: their names, or numbers from 0; empty without classes."""
        return self.spec.class_names or tuple(range(self.spec.classes))

    def arrays(self, rows: Any, *, lost: Lost | None = None) -> NDArray[Any]:
        """Return rows as the run's data set holds examples: codes of categories, NaN for a missing value, bytes, ...

        Parameters
        ----------
        rows : frame, dict, list, array, tensor, path
            Rows in any form of `Run.predict`.
        lost
            Counts cells that are not as declared. Without it, they are said in a line each.

        Raises
        ------
        UsageError
            If a column is missing, or the rows are of another kind; in one line.
        """
        counted = Lost() if lost is None else lost
        with one_line_of("the rows"):
            prepared = self._arrays(rows, counted)
        if lost is None:
            for line in counted.lines:
                log.warning(line)
        return prepared

    def inputs(self, rows: Any) -> Tensor:
        """Return rows as the input of a network: scaled numbers, one-hot categories, zeros for missing values."""
        from fedlearn.models.torch.inputs import inputs_of

        return inputs_of(self.spec)(self.arrays(rows))

    def examples(self, rows: Any) -> Examples:
        """Return rows of a declared table with their targets, which stand in the declared column.

        Rows without a target that is declared are left out, as in training.
        """
        schema = self.spec.table
        assert schema is not None
        names = (*schema.features, *schema.learned)
        table = columns_named(named_rows.as_frame(rows, names), names)
        found, lines = encoded(self._plain(table, names), schema)
        for line in lines:
            log.warning(line)
        return found

    def _arrays(self, rows: Any, lost: Lost) -> NDArray[Any]:
        if isinstance(rows, str | Path):
            from fedlearn.predicting.pieces import pieces_of

            parts = [self._arrays(piece.rows, lost) for piece in pieces_of(Path(rows), self)]
            return np.concatenate(parts or [np.zeros((0, *self.spec.shape), self.spec.dtype)])
        rows = rows.inputs if isinstance(rows, Examples) else rows
        read = None if has_mask(rows) else next((read for is_it, read in _FORMS if is_it(rows, self)), None)
        return examples_like(self.spec, rows) if read is None else read(self, rows, lost)

    def _of_frame(self, frame: Any, lost: Lost) -> NDArray[Any]:
        return self._of_columns(columns_named(named_rows.as_frame(frame, self.columns), self.columns), lost)

    def _of_columns(self, table: Columns, lost: Lost) -> NDArray[Any]:
        named_rows.refuse_empty(self.columns, table.name)
        table.check(self.columns)
        if not table.rows:
            return np.zeros((0, *self.spec.shape), self.spec.dtype)
        return self._of_declared(table, lost) if self.spec.table is not None else self._of_plain(table)

    def _of_declared(self, table: Columns, lost: Lost) -> NDArray[np.float64]:
        schema = self.spec.table
        assert schema is not None
        columns = self._plain(table, self.columns)
        rows = encoded_features(columns, schema, [])
        lost.add(columns, rows, schema)
        return rows

    def _plain(self, table: Columns, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        schema = self.spec.table
        assert schema is not None
        return declared_columns(table, names, schema, decimal=self.dialect.decimal)

    def _of_plain(self, table: Columns) -> NDArray[Any]:
        table = named_rows.with_numbers(table, self.columns, self.dialect)
        size = self.spec.shape[:2] if self.spec.is_image else None
        columns = [values_of(table, name, size) for name in self.columns]  # type: ignore[arg-type]
        if self.spec.is_image:
            return examples_like(self.spec, pictures.with_channels(columns[0], self.spec, table.name))
        one = columns[0] if columns[0].ndim > 1 else np.column_stack([each.astype(np.float32) for each in columns])
        return examples_like(self.spec, one)

    def _of_mixed(self, given: Sequence[Any], lost: Lost) -> NDArray[Any]:
        return padded([decoded([each], [f"picture {n}"], None)[0] if pictures.is_picture(each) else each
                       for n, each in enumerate(given)])  # fmt: skip

    def _of_pictures(self, given: Sequence[Any], lost: Lost) -> NDArray[np.uint8]:
        return pictures.decoded_like(self.spec, given)

    def _of_texts(self, texts: Sequence[str], lost: Lost) -> NDArray[np.int32]:
        return letters.tokens_of(self.spec, texts)


def _is_named(rows: Any, preparation: Preparation) -> bool:
    """Return whether rows have names of columns, or are texts and numbers side by side in the order of the columns."""
    if isinstance(rows, Mapping) or is_hf(rows) or named_rows.is_one_row(rows, preparation.columns):
        return True
    if not preparation.columns:
        return False
    return bool(columns_of(rows)) or named_rows.are_dicts(rows) or named_rows.is_mixed(rows, preparation.columns)


_FORMS: tuple[tuple[Callable[[Any, Preparation], bool], Callable[..., NDArray[Any]]], ...] = (
    (lambda rows, _: isinstance(rows, Columns), Preparation._of_columns),
    (lambda rows, preparation: preparation.spec.mixed and isinstance(rows, list | tuple), Preparation._of_mixed),
    (lambda rows, preparation: letters.are_texts(rows, preparation.spec), Preparation._of_texts),
    (lambda rows, preparation: pictures.are_pictures(rows, preparation.spec), Preparation._of_pictures),
    (_is_named, Preparation._of_frame),
)
"""Tests of rows and their readers; the first that fits counts, and other rows are arrays."""
