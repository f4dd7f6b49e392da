"""Scaling of columns by mean and standard deviation (``data.scaling``), as all nodes together have measured them once.

A run of ``statistics`` or ``dp-statistics`` measures them by a round of sums, and stores them in its folder. A later
run is given the folder, or the file; the numbers themselves are then a setting of that run, so that every process and
node scales alike, a resume does not need the file, and new rows are prepared in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from fedlearn.config import RunConfig
from fedlearn.core.errors import FedlearnError, SettingError
from fedlearn.data.data_spec import TableSchema
from fedlearn.data.dataset import Dataset
from fedlearn.data.reading import text_of

SETTING = "data.scaling"
FILE = "statistics.json"  # of a run folder
Finite = Annotated[float, Field(allow_inf_nan=False)]
Above0 = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Moments = Mapping[str, tuple[float, float]]
"""Column -> its mean and standard deviation."""
_MOMENTS: TypeAdapter[dict[str, tuple[float, float]]] = TypeAdapter(dict[str, tuple[Finite, Above0]])


def moments_in(given: str) -> Moments:
    """Return the moments that a value of the setting names or holds.

    Parameters
    ----------
    given
        A JSON text of ``{"COLUMN": [MEAN, DEVIATION]}``; the path of a file with such a text, of a run folder, or of
        the statistics.json in one.

    Raises
    ------
    SettingError
        If there is no such file, or it holds something else.
    """
    is_text = _is_text(given)
    path = Path() if is_text else Path(given).expanduser()
    path = path / FILE if not is_text and path.is_dir() else path
    if not is_text and not path.exists():
        raise SettingError(SETTING, given, f"there is no {path}: name a run of statistics or dp-statistics, or a file")
    try:
        found = json.loads(given if is_text else text_of(path))
        return _MOMENTS.validate_python(_plain(found))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SettingError(SETTING, given, f"{place}: {first['msg']}: write COLUMN = [MEAN, DEVIATION]") from None
    except (FedlearnError, ValueError, AttributeError, TypeError, RecursionError):
        kinds = "a run of statistics or dp-statistics, its statistics.json, or a table COLUMN = [MEAN, DEVIATION]"
        raise SettingError(
            SETTING, given, f"{'it' if is_text else path} holds no means and deviations: give {kinds}"
        ) from None


def _is_text(given: str) -> bool:
    return given.lstrip().startswith("{")


def _plain(found: Any) -> dict[str, Any]:
    """Return moments by column; of the statistics of a run, those of columns that have both."""
    if not {"columns", "count"} <= found.keys():
        return dict(found)
    columns = found["columns"].items()
    both = {name: [each.get("mean"), each.get("std")] for name, each in columns}
    return {name: pair for name, pair in both.items() if None not in pair}


def text_of_moments(given: str) -> str:
    """Return a value of the setting as the text that a run stores: the numbers themselves."""
    return json.dumps(moments_in(given), sort_keys=True)


def with_scaling(config: RunConfig) -> RunConfig:
    """Return the settings with the numbers of ``data.scaling`` in place of a file: no node opens a path."""
    if not config.data.scaling:
        return config
    numbers = text_of_moments(config.data.scaling)
    return config.model_copy(update={"data": config.data.model_copy(update={"scaling": numbers})})


def scaled(given: Dataset, scaling: str) -> Dataset:
    """Return a data set whose columns of numbers, and targets that are numbers, are scaled by these moments.

    The moments are given as text (`text_of_moments`): nodes scale, too, and open no file that a server names.

    A column that is declared on a logarithmic scale keeps the scale of its declared range. So does one whose deviation
    was not told, as noise may be as large; a line says so.

    Raises
    ------
    SettingError
        If the data set has no named columns of numbers, or there are no moments of them.
    """
    if not _is_text(scaling):
        raise SettingError(SETTING, scaling, "the numbers themselves are due here: a file is read where the run begins")
    moments, spec = moments_in(scaling), given.spec
    if spec.table is None and (spec.dtype != "float32" or not spec.feature_names or len(spec.shape) != 1):
        raise SettingError(SETTING, scaling, f"it is for tables with names of columns, and {spec.name!r} is none")
    columns = tuple(spec.table.bounds) if spec.table is not None else spec.feature_names
    kept = _by_range(spec.table, moments) if spec.table is not None and {*columns} & moments.keys() else {}
    mean, std = _of(columns, {**moments, **kept}, scaling)
    learned = spec.target_names or (spec.table.learned if spec.table is not None else ())
    is_known = not spec.classes and bool(learned) and {*learned} <= moments.keys()
    target_mean, target_std = _of(learned, moments, scaling) if is_known else ((), ())
    unknown = [name for name in kept if name not in moments]
    said = f"{', '.join(unknown)}: no deviation in data.scaling: the declared range scales" if unknown else ""
    notice = "; ".join(filter(None, [given.notice, said]))
    return replace(given, mean=mean, std=std, target_mean=target_mean, target_std=target_std, notice=notice)


def _of(names: Sequence[str], moments: Moments, scaling: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if absent := next((name for name in names if name not in moments), None):
        why = "where noise may be as large as a deviation, none is told: a larger epsilon or narrower ranges help"
        raise SettingError(SETTING, scaling, f"it has no mean and deviation of the column {absent!r}; {why}")
    return tuple(moments[name][0] for name in names), tuple(moments[name][1] for name in names)


def _by_range(schema: TableSchema, moments: Moments) -> Moments:
    """Return middle and half width of columns that are declared on a logarithmic scale, or have no moments."""
    is_log = {name: "log" in each[2:] for name, each in schema.bounds.items()}
    kept = {name: each[:2] for name, each in schema.bounds.items() if is_log[name] or name not in moments}
    ends = {name: np.log(each) if is_log[name] else np.array(each, np.float64) for name, each in kept.items()}
    return {name: (float(each.mean()), float(np.ptp(each) / 2)) for name, each in ends.items()}
