"""A run that was made: its history, its model, its folder."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedlearn.api.guest import guest
from fedlearn.config import RunConfig, config_from
from fedlearn.plugging import objects
from fedlearn.runs.checkpoint import TIED
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.reading import open_regular
from fedlearn.words.errors import UsageError, said
from fedlearn.words.state import State

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn

    from fedlearn.data.base import DataSpec, Examples
    from fedlearn.data.dataset import Dataset
    from fedlearn.models.base import Model

LATEST, BEST = "model.safetensors", "best.safetensors"
MOST_STATE_BYTES = 1 << 33  # of a state that is read as a whole
MOST_TABLE_BYTES = 1 << 28  # of metrics.csv and nodes.csv, a row of which takes about a hundred


class Run:
    """What a run has left in its folder; read when it is asked for, so that it is never older than the files.

    Looking at a run, its history, state or report, runs none of the code that was given as objects. Making its model,
    evaluating it and resuming it do: do that with folders of people you trust.

    Parameters
    ----------
    folder : Path
        The run folder.

    Examples
    --------
    >>> run = fedlearn.load("runs/20261121-101500")  # doctest: +SKIP
    >>> run.history["accuracy"].max()  # doctest: +SKIP
    0.49
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def settings(self) -> RunConfig:
        """All settings, resolved."""
        return config_from({**RunFolder(self.folder).read_settings(), "out": str(self.folder)}, source=str(self.folder))

    @property
    def summary(self) -> dict[str, Any]:
        """What stands in summary.json: the last and the best scores, bytes, seconds, the model's SHA-256."""
        return RunFolder(self.folder).read_summary()

    @property
    def sha256(self) -> str:
        """The SHA-256 of the final model's file: the same for the same settings by whatever door."""
        return str(self.summary["model_sha256"])

    @property
    def history(self) -> pd.DataFrame:
        """One row a committed round: what was measured, nodes, bytes, seconds (metrics.csv)."""
        return _table(self.folder / "metrics.csv", "no round was committed")

    @property
    def nodes(self) -> pd.DataFrame:
        """One row for each node and round in which nodes were measured (nodes.csv)."""
        return _table(self.folder / "nodes.csv", "nodes were not measured")

    @property
    def spec(self) -> DataSpec:
        """What is public of the data: shape of an example, classes, mean and deviation of the channels."""
        return RunFolder(self.folder).read_spec()

    @property
    def state(self) -> State:
        """The final model as named arrays; a parameter with several names has them all."""
        return self._state(LATEST)

    @property
    def best_state(self) -> State:
        """The model of the best evaluated round as named arrays."""
        return self._state(BEST)

    def model(self) -> nn.Module | Model:
        """Return the final model with its weights in place: the torch module, in evaluation mode.

        It takes what it took in training: images by `inputs`. A model that is no torch module comes as the
        `fedlearn.models.Model` that it is; its arrays are in `state`.
        """
        return self._with(self.state)

    def best_model(self) -> nn.Module | Model:
        """Return the model of the best evaluated round, as `model` does."""
        return self._with(self.best_state)

    def inputs(self, examples: Any) -> Any:
        """Return examples as the model takes them.

        Parameters
        ----------
        examples : array, tensor or data frame
            As the run's data set holds them: images as uint8, from 0 to 255, of shape (n, height, width, channels), or
            (n, height, width) if they are grey; rows as numbers; tokens as integers. Columns of a frame are found by
            their names.

        Raises
        ------
        UsageError
            Where they are of another kind of numbers, range or shape.
        """
        from fedlearn.data.sources.like import examples_like

        with guest():
            made: Any = self._made()
            if not hasattr(made, "inputs"):
                raise UsageError(f"{self.settings.model.name}: this model takes examples as they are")
            return made.inputs(examples_like(self.spec, examples))

    def evaluate(self, data: str | Dataset | Examples | None = None, *, best: bool = False) -> dict[str, float | None]:
        """Return what the model scores on test examples: mean by metric; None for what is no finite number.

        Parameters
        ----------
        data : str, Dataset or Examples, optional
            A data set, of which the test examples are taken, its name, or examples; the run's own unless given. Classes
            and columns that have names are those of the same names in the run's own data.
        best : bool, default=False
            Evaluate the best model instead of the final one.
        """
        with guest():
            result = self._made().evaluate(self.best_state if best else self.state, self._examples(data))
        return {name: value if isfinite(value) else None for name, value in result.means.items()}

    def report(self, out: str | Path | None = None) -> Path:
        """Write the page with its figures and tables, as ``fedlearn report``; return where the page is."""
        from fedlearn.report.writing import write_report

        page, _ = write_report([self.folder], Path(out) if out is not None else None)
        return page

    def _state(self, name: str) -> State:
        from safetensors import SafetensorError
        from safetensors.numpy import load

        path = self.folder / name
        try:
            with open_regular(path, most=MOST_STATE_BYTES) as file:
                data = file.read()
            state: dict[str, Any] = load(data)
            head = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])  # as the format has it
            tied = json.loads(head.get("__metadata__", {}).get(TIED, "{}"))
            return state | {name: state[first] for name, first in tied.items()}
        except FileNotFoundError:
            raise UsageError(f"{path}: it is not there: no round was committed, or none evaluated") from None
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}: put back the file that was written") from None
        except (SafetensorError, ValueError, LookupError, TypeError, AttributeError, MemoryError) as error:
            raise UsageError(f"{path}: it is not what was written: {said(error)}") from None

    def _made(self) -> Model:
        """Return the run's model, without weights, on the CPU: the device of the run need not be here."""
        from fedlearn.models import load_model
        from fedlearn.models.base import Planned

        objects.look_in(self.folder)
        config = self.settings
        config = config.model_copy(update={"engine": config.engine.model_copy(update={"device": "cpu"})})
        made = load_model(config.model.name, self.spec, config.model.options, config.model.loss)
        return made.planned(config) if isinstance(made, Planned) else made

    def _with(self, state: State) -> nn.Module | Model:
        with guest():
            made: Any = self._made()
        if not hasattr(made, "module"):
            return made  # type: ignore[no-any-return]
        made.load(state)
        module: nn.Module = made.module
        return module.eval()

    def _examples(self, data: str | Dataset | Examples | None) -> Examples:
        from fedlearn.data import load_dataset
        from fedlearn.data.base import Examples
        from fedlearn.data.dataset import Dataset
        from fedlearn.data.sources.like import examples_like, held_out_like
        from fedlearn.models.loaded import dataset_of

        if data is None:
            objects.look_in(self.folder)
            return dataset_of(self.settings).test
        found = load_dataset(data, self.settings.data.dir) if isinstance(data, str) else data
        if isinstance(found, Dataset):
            return held_out_like(self.spec, found)
        return Examples(examples_like(self.spec, found.inputs), found.targets, found.groups)

    def __repr__(self) -> str:
        return f"<Run {self.folder}>"

    def _repr_html_(self) -> str:
        from fedlearn.api.drawn import run_as_html

        return run_as_html(self.folder)


def load(folder: str | Path) -> Run:
    """Return the run in a folder, going on or ended; nothing of it is run.

    Raises
    ------
    UsageError
        If there is none.
    """
    path = Path(folder).resolve()
    if not RunFolder(path).has_settings:
        raise UsageError(f"{folder}: there is no run, settings.toml is missing")
    return Run(path)


def _table(path: Path, why: str) -> pd.DataFrame:
    import pandas as pd

    try:
        with open_regular(path, most=MOST_TABLE_BYTES) as file:
            return pd.read_csv(file, dtype=str).apply(_numbers)
    except FileNotFoundError:
        raise UsageError(f"{path}: it is not there: {why}") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: put back the file that was written") from None
    except (ValueError, MemoryError) as error:  # of which pandas' own are
        raise UsageError(f"{path}: it is not what was written: {said(error)}") from None


def _numbers(column: pd.Series) -> pd.Series:
    """Return a column as numbers if it holds numbers, to the last digit, which not every pandas reads from a file."""
    for kind in ("int64", "float64"):
        with suppress(ValueError, TypeError):
            return column.astype(kind)
    return column
