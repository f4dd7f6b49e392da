"""What a run says of new rows: predictions, the preparation of rows, an estimator, a file of the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedlearn.api.isolated_call import guest
from fedlearn.core.errors import UsageError
from fedlearn.predicting import Preparation

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from fedlearn.config import RunConfig
    from fedlearn.core.state import State
    from fedlearn.data.data_spec import DataSpec
    from fedlearn.models.model import Model
    from fedlearn.predicting import Predictor, Preparation
    from fedlearn.predicting.estimator import FittedRun


class Predicts:
    """The part of a run that takes new rows; no example of the run's data is read."""

    if TYPE_CHECKING:
        folder: Path

        @property
        def settings(self) -> RunConfig:
            """All settings of the run."""

        @property
        def spec(self) -> DataSpec:
            """The public facts of the data."""

        def state_of(self, round_number: int) -> State:
            """Return the model after a round."""

    @property
    def preparation(self) -> Preparation:
        """How new rows are prepared, exactly as in training: it can be saved, read and used without the run.

        >>> run.preparation.spec.name
        'digits'
        """
        return Preparation.of(self.spec, self.settings)

    def inputs(self, examples: Any) -> Any:
        """Return examples in the form that the model takes: the input of a network.

        Parameters
        ----------
        examples : frame, dict, list, array, tensor, path
            Rows in any form of `predict`. Arrays hold what the run's data set holds: images as uint8, from 0 to 255, of
            shape (n, height, width, channels), or (n, height, width) if they are gray; rows as numbers; tokens as
            integers.

        Raises
        ------
        UsageError
            If the examples have another kind of numbers, range or shape, or lack a column.

        Examples
        --------
        >>> import numpy as np
        >>> run.inputs(np.zeros((2, 32, 32, 3), np.uint8)).shape
        torch.Size([2, 3, 32, 32])
        """
        with guest():
            made: Any = self._made()
            if not hasattr(made, "inputs"):
                raise UsageError(f"{self.settings.model.name}: this model takes examples as they are")
            return made.inputs(self.preparation.arrays(examples))

    def predict(
        self,
        rows: Any,
        *,
        threshold: float | None = None,
        top: int | None = None,
        client: int | None = None,
        node: int | None = None,
        best: bool = False,
        round_number: int | None = None,
    ) -> NDArray[Any] | pd.DataFrame:
        """Return a prediction for each row: the name of a class, or its number; labels; numbers in their own unit.

        Parameters
        ----------
        rows : frame, dict, list, array, tensor, path
            A frame of pandas or polars, a table of Arrow, a data set of `datasets`; one dict for one row, a list of
            dicts, a dict of lists; the path of a CSV, Parquet or NumPy file, or of a folder of pictures; a list of
            paths or Pillow images; texts of letters; tokens or other arrays, as the run's data set holds them. Columns
            are found by their names, in any order, and others are left out. In a declared table a missing value, and a
            category that was not declared, count as missing, and a line says how many; in other tables they are
            refused.
        threshold : float, optional
            Least probability of the second of two classes, or of a label that is present; unless given, 0.5.
        top : int, optional
            Return so many classes of each row, the likeliest first: shape (n, top).
        client, node : int, optional
            Predict with the personal model of this client of a simulation, from 0: with the layers that it keeps for
            itself. Both names mean the same.
        best : bool, default=False
            Predict with the best model instead of the final one.
        round_number : int, optional
            Predict with the model after that round, where it has stayed in the run folder.

        Returns
        -------
        array or DataFrame
            Shape (n,), or that of the targets; a frame where the run has learned several targets that have names.

        Raises
        ------
        UsageError
            If a column is missing, or the rows are not what the model takes; in one line.

        Examples
        --------
        >>> import numpy as np
        >>> rows = np.zeros((2, 32, 32, 3), np.uint8)
        >>> run.predict(rows).shape, run.predict(rows, top=3).shape
        ((2,), (2, 3))
        """
        predictor = self.predictor(client=client, node=node, best=best, round_number=round_number)
        with guest():
            return predictor.predict(rows, threshold=threshold, top=top)

    def predict_proba(
        self,
        rows: Any,
        *,
        client: int | None = None,
        node: int | None = None,
        best: bool = False,
        round_number: int | None = None,
    ) -> NDArray[np.float64]:
        """Return the probability of each class, in the order of ``preparation.classes``, or of each label.

        Parameters
        ----------
        rows, client, node, best, round_number
            As in `predict`.

        Raises
        ------
        UsageError
            As in `predict`; or if the run predicts numbers.

        Examples
        --------
        >>> import numpy as np
        >>> rows = np.zeros((2, 32, 32, 3), np.uint8)
        >>> run.predict_proba(rows).sum(axis=1).round(3).tolist()
        [1.0, 1.0]
        """
        predictor = self.predictor(client=client, node=node, best=best, round_number=round_number)
        with guest():
            return predictor.predict_proba(rows)

    def predictor(
        self,
        *,
        client: int | None = None,
        node: int | None = None,
        best: bool = False,
        round_number: int | None = None,
    ) -> Predictor:
        """Return the model with its preparation, read once, for many calls of `predict` and `predict_proba`.

        Parameters
        ----------
        client, node, best, round_number
            As in `predict`.

        Examples
        --------
        >>> import numpy as np
        >>> rows = np.zeros((2, 32, 32, 3), np.uint8)
        >>> predictor = run.predictor()
        >>> [predictor.predict(rows[[place]]).shape for place in (0, 1)]
        [(1,), (1,)]
        """
        from fedlearn.predicting.stored_model import predictor_in

        with guest():
            state = self._chosen(client=client, node=node, best=best, round_number=round_number)
            return predictor_in(self.folder, self.settings, self.spec, state)

    def to_sklearn(self, *, client: int | None = None, node: int | None = None, best: bool = False) -> FittedRun:
        """Return the model as a fitted estimator of scikit-learn, for its scores and inspections; it refuses `fit`.

        Parameters
        ----------
        client, node, best
            As in `predict`.

        Examples
        --------
        >>> len(run.to_sklearn().classes_)
        10
        """
        from fedlearn.predicting.estimator import estimator_of

        return estimator_of(self.predictor(client=client, node=node, best=best))

    def export(
        self,
        kind: str = "onnx",
        path: str | Path | None = None,
        *,
        client: int | None = None,
        node: int | None = None,
        best: bool = False,
    ) -> Path:
        """Write the network to a file that needs no fedlearn, and its preparation beside it; return the file's path.

        The file takes what `inputs` returns, a batch of any length, and gives what `predict_proba` returns, or
        `predict` where numbers are learned. Beside it stands ``NAME.preparation.json``, which
        `fedlearn.predicting.Preparation.read` reads.

        Parameters
        ----------
        kind : "onnx" or "torch-export", default="onnx"
            ONNX needs ``pip install "fedlearn[onnx]"``; `torch.export.load` opens the other one.
        path : str or Path, optional
            The file; by default ``model.onnx`` or ``model.pt2`` in the run folder.
        client, node, best
            As in `predict`.

        Raises
        ------
        UsageError
            If the model is no network, a package is missing, or the network cannot be exported.

        Examples
        --------
        >>> run.export("onnx", "digits.onnx")  # doctest: +SKIP
        PosixPath('digits.onnx')
        """
        from fedlearn.predicting.exporting import exported

        predictor = self.predictor(client=client, node=node, best=best)
        with guest():
            return exported(predictor, kind, Path(path) if path is not None else None, self.folder)

    def _chosen(self, *, client: int | None, node: int | None, best: bool, round_number: int | None) -> State:
        from fedlearn.predicting.stored_model import chosen_state

        if None not in (client, node) and client != node:
            raise UsageError(f"client = {client} and node = {node}: they mean the same: give one of them")
        node = node if client is None else client
        if round_number is None:
            with guest():
                return chosen_state(self.folder, self.settings, self.spec, node=node, best=best)
        if best or node is not None:
            raise UsageError("client, best and round_number: give one of them: a client keeps only its latest layers")
        return self.state_of(round_number)

    def _made(self) -> Model:
        from fedlearn.predicting.stored_model import model_in

        return model_in(self.folder, self.settings, self.spec)
