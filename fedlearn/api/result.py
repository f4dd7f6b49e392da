"""A run in its folder, for Python users: its history, its model, its report."""

from __future__ import annotations

import logging
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedlearn.api.isolated_call import guest
from fedlearn.api.predictions import Predicts
from fedlearn.api.run_frames import frame_of
from fedlearn.config import RunConfig, config_from
from fedlearn.core.errors import UsageError
from fedlearn.core.state import State
from fedlearn.core.stopping import begin, signals_caught
from fedlearn.data import load_dataset
from fedlearn.data.data_spec import Examples
from fedlearn.data.dataset import Dataset
from fedlearn.data.sources.forms import names_a_column
from fedlearn.data.sources.from_any import brought
from fedlearn.data.sources.like import examples_like, held_out_like, scored_like
from fedlearn.models.loaded import dataset_of, rows_measured
from fedlearn.plugins import objects
from fedlearn.report.charts.plots import figure_of
from fedlearn.runs.file_names import BEST, KEPT, MODEL, MODELS, kept_name
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.stop_requests import ask_to_stop

log = logging.getLogger("fedlearn")

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from torch import nn

    from fedlearn.data.data_spec import DataSpec, Examples
    from fedlearn.models.model import Model
    from fedlearn.private_trees.federated.models.fitted_forest import FittedForest


class Run(Predicts):
    """A run in its folder; each property reads the files when it is asked for, so that it is never out of date.

    Looking at a run, its history, state or report, runs none of the code that was given as objects. Making its model,
    evaluating it and resuming it run that code: do this only with folders of people you trust.

    Parameters
    ----------
    folder : Path
        The run folder.

    Examples
    --------
    >>> run = fedlearn.run(clients=3, data="digits", model="linear", rounds=2, progress=False)  # doctest: +SKIP
    >>> len(run.history), bool(run.history["accuracy"].max() <= 1)
    (2, True)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def settings(self) -> RunConfig:
        """All settings of the run, resolved.

        >>> run.settings.rounds.total
        2
        """
        return config_from({**RunFolder(self.folder).read_settings(), "out": str(self.folder)}, source=str(self.folder))

    @property
    def summary(self) -> dict[str, Any]:
        """The content of summary.json: the last and the best scores, bytes, seconds, the model's SHA-256.

        >>> run.summary["status"]
        'completed'
        """
        return RunFolder(self.folder).read_summary()

    @property
    def sha256(self) -> str:
        """The SHA-256 of the final model's file: the same for the same settings, however the run was begun.

        >>> len(run.sha256)
        64
        """
        return str(self.summary["model_sha256"])

    @property
    def history(self) -> pd.DataFrame:
        """The committed rounds, one row each: metrics, numbers of nodes, bytes, seconds (metrics.csv).

        >>> run.history["round_number"].tolist()
        [1, 2]
        """
        return frame_of(self.folder / "metrics.csv", "no round was committed")

    @property
    def nodes(self) -> pd.DataFrame:
        """The measurements of nodes, one row for each node and round (nodes.csv).

        >>> sorted(run.nodes)
        ['examples', 'partition', 'round', 'train_loss']
        """
        return frame_of(self.folder / "nodes.csv", "clients were not measured")

    @property
    def spec(self) -> DataSpec:
        """The public facts of the data: shape of an example, classes, mean and deviation of the channels.

        >>> run.spec.shape, run.spec.classes
        ((32, 32, 3), 10)
        """
        return RunFolder(self.folder).read_spec()

    @property
    def state(self) -> State:
        """The final model as named arrays; a parameter with several names stands under each of them.

        >>> sorted((name, array.shape) for name, array in run.state.items())
        [('1.bias', (10,)), ('1.weight', (10, 3072))]
        """
        return self._state(MODEL)

    @property
    def best_state(self) -> State:
        """The model of the best evaluated round as named arrays.

        >>> sorted(run.best_state)
        ['1.bias', '1.weight']
        """
        return self._state(BEST)

    @property
    def kept_rounds(self) -> list[int]:
        """The rounds whose models have stayed in the run folder (``rounds.keep_every``), in order.

        >>> run.kept_rounds  # with rounds.keep_every = 1
        [1, 2]
        """
        found = (KEPT.fullmatch(path.name) for path in (self.folder / MODELS).glob("*"))
        return sorted(int(name[1]) for name in found if name)

    def state_of(self, round_number: int) -> State:
        """Return the model after a round as named arrays, if it has stayed in the run folder (`kept_rounds`).

        Raises
        ------
        UsageError
            If it has not.

        Examples
        --------
        >>> run.state_of(1)["1.bias"].shape
        (10,)
        """
        if round_number in self.kept_rounds:
            return self._state(kept_name(round_number))
        kept = ", ".join(map(str, self.kept_rounds)) or "none"
        raise UsageError(
            f"round {round_number}: its model has not stayed in {self.folder}, those of {kept} have: "
            "rounds.keep_every = K keeps every K-th"
        )

    def model(
        self, *, round_number: int | None = None, node: int | None = None, client: int | None = None
    ) -> nn.Module | Model | FittedForest:
        """Return the final model with its weights in place: the torch module, in evaluation mode.

        With `round_number`, the model after that round, where it has stayed in the run folder (``rounds.keep_every``).
        With `client`, or `node`, which is the same, the personal model of a client of a simulation: with the layers
        that it keeps for itself.

        The module takes inputs as in training; `inputs` makes them of rows. A forest of private trees has `rules`,
        `export_text`, `plot`, `feature_importances_` and `predict`, as an estimator of scikit-learn
        (`fedlearn.private_trees.federated.models.fitted_forest`). Of any other model that is no torch module, a
        `fedlearn.models.Model` is returned; its arrays are in `state`.

        >>> run.model()
        Linear(
          (0): Flatten(start_dim=1, end_dim=-1)
          (1): Linear(in_features=3072, out_features=10, bias=True)
        )
        """
        return self._with(self._chosen(client=client, node=node, best=False, round_number=round_number))

    def best_model(self) -> nn.Module | Model | FittedForest:
        """Return the model of the best evaluated round, as `model` does.

        >>> type(run.best_model()).__name__
        'Linear'
        """
        return self._with(self.best_state)

    def evaluate(self, data: Any = None, *, best: bool = False) -> dict[str, float | None]:
        """Return the scores of the model on test examples: metric -> mean, None for one that is not finite.

        Parameters
        ----------
        data : str, Dataset, Examples, or any other data that `run` takes, optional
            A data set, whose test examples are taken, or the name of one; examples, or other data, whose examples for
            testing are taken if they have some, else all; by default the run's own data set. Named classes and columns
            are matched by name with those of the run's own data.
        best : bool, default=False
            Evaluate the best model instead of the final one.

        Examples
        --------
        >>> sorted(run.evaluate())
        ['accuracy', 'loss']
        """
        with guest():
            result = self._made().evaluate(self.best_state if best else self.state, self._examples(data))
        return {name: value if isfinite(value) else None for name, value in {**result.scores, **result.means}.items()}

    def report(self, out: str | Path | None = None, *, figures: str = "png,svg", columns: str = "") -> Path:
        """Write the page with its figures and tables; return the path of the page.

        Parameters
        ----------
        out : str or Path, optional
            The folder; by default ``report`` in the run folder.
        figures, columns : str
            Formats of figures and columns of tables, as ``fedlearn report`` takes them.

        Examples
        --------
        >>> run.report("page", figures="svg").name
        'index.html'
        """
        from fedlearn.report.writing import write_report

        place = Path(out) if out is not None else None
        page, problems = write_report([self.folder], place, figures=figures, columns=columns)
        for problem in problems:
            log.warning("%s", problem)
        return page

    def plot(self, metric: str = "") -> Figure:
        """Return the curve of a metric by round as a figure of matplotlib, which a notebook shows.

        Parameters
        ----------
        metric : str, default=""
            A column of `history`, such as ``"loss"``; unless given, the metric that the run is judged by.

        Raises
        ------
        UsageError
            If the run has no curve of this metric.

        Examples
        --------
        >>> run.plot("loss").savefig("loss.svg")
        """
        from fedlearn.api.notebook_html import chart_of

        return figure_of(chart_of(self.folder, metric))

    def stop(self) -> None:
        """Stop the run, which another thread or process makes: it ends within moments, and `resume` goes on with it.

        Raises
        ------
        UsageError
            If no process runs in the folder.

        Examples
        --------
        >>> run.stop()  # doctest: +SKIP
        """
        ask_to_stop(self.folder, "by run.stop()")

    def forget(self, client: int, *, out: str | Path | None = None, scaling: str = "", progress: bool = True) -> Run:
        """Train again without a client, as ``fedlearn forget`` does; return the run without it.

        Its model has the SHA-256 of a run in which the client was never ready. The certificate, ``forgotten.json`` in
        its folder, is checked by ``fedlearn verify``. After a kill, the same call resumes.

        Parameters
        ----------
        client : int
            The client, from 0.
        out : str or Path, optional
            Folder of the run without it; by default the run's folder with ``-without-`` and the client.
        scaling : str, default=""
            For a run with ``data.scaling``: a run with statistics that were measured without the client.
        progress : bool, default=True
            Show rounds as they are committed.

        Raises
        ------
        UsageError
            If the run cannot forget the client exactly; the line says why.

        Examples
        --------
        >>> other = run.forget(client=2, out="without", progress=False)
        >>> other.sha256 == run.sha256
        False
        """
        from fedlearn.api.progress import shown
        from fedlearn.api.running import python_says_how_to_go_on
        from fedlearn.api.spelled import as_called
        from fedlearn.commands.forgetting import forgotten

        begin()
        way = python_says_how_to_go_on("the same call resumes", is_stored=lambda: True)
        with as_called({"client": client}), guest(), signals_caught(), way:
            place = Path(out) if out is not None else None
            path, _ = forgotten(self.folder, client, out=place, scaling=scaling, show=shown if progress else None)
        return Run(path.parent)

    def worth(self, *, rows: str = "test", permutations: int = 100, seed: int = 1) -> pd.DataFrame:
        """Return what each client is worth, as ``fedlearn worth`` computes and stores it: one row for each client.

        Parameters
        ----------
        rows : {"test", "validation", "clients"}
            The rows by which models are scored.
        permutations, seed : int
            Random orders for the estimate, with more than 10 clients; seed of the orders.

        Raises
        ------
        UsageError
            If the run has no stored changes (``contributions.keep``), or no such rows.

        Examples
        --------
        >>> run.worth().index.tolist()  # with contributions.keep = true
        ['client 0', 'client 1', 'client 2']
        """
        from fedlearn.api.spelled import as_called
        from fedlearn.commands.valuing import valued

        with as_called({"rows": rows}), guest():
            return valued(self.folder, rows=rows, permutations=permutations, seed=seed).table("worth")

    @property
    def who_has(self) -> pd.DataFrame:
        """The number of training examples of each label (row) on each node (column) of a simulation (dealt.json).

        Raises
        ------
        UsageError
            If nodes keep these numbers to themselves, as those of a private model and those of a network.

        Examples
        --------
        >>> int(run.who_has.to_numpy().sum())
        1442
        """
        from fedlearn.api.label_frame import counts_of

        return counts_of(self.folder, lambda: self.spec.class_names)

    def _state(self, name: str) -> State:
        from fedlearn.predicting.stored_model import state_in

        return state_in(self.folder, name)

    def _with(self, state: State) -> nn.Module | Model | FittedForest:
        with guest():
            made: Any = self._made()
        if hasattr(made, "fitted"):
            return made.fitted(state)  # type: ignore[no-any-return]
        if not hasattr(made, "module"):
            return made  # type: ignore[no-any-return]
        made.load(state)
        module: nn.Module = made.module
        return module.eval()

    def _examples(self, data: Any) -> Examples:
        if data is None:
            objects.look_in(self.folder)
            rows = rows_measured(self.settings, dataset_of(self.settings), once=True)
            return rows.at(0, len(rows))
        if self.spec.table is not None and names_a_column(data):
            named = {data[-1]} if isinstance(data[-1], str) else {*data[-1]}
            if named == {*self.spec.table.learned}:
                return self.preparation.examples(data[0])
        found = load_dataset(str(data), self.settings.data.dir) if isinstance(data, str | Path) else data
        if isinstance(found, Dataset):
            return held_out_like(self.spec, found)
        if isinstance(found, Examples):
            return Examples(examples_like(self.spec, found.inputs), found.targets, found.groups)
        return scored_like(self.spec, brought(found, name="other data"))

    def __repr__(self) -> str:
        from fedlearn.api.notebook_html import in_one_line

        return f"<Run {self.folder}: {in_one_line(self.folder)}>"

    def _repr_html_(self) -> str:
        from fedlearn.api.notebook_html import run_as_html

        return run_as_html(self.folder)


def load(folder: str | Path) -> Run:
    """Return the run in a folder, which may still go on; none of its code is run.

    Raises
    ------
    UsageError
        If the folder holds no run.

    Examples
    --------
    >>> fedlearn.load(run.folder).summary["status"]
    'completed'
    """
    path = Path(folder).resolve()
    if not RunFolder(path).has_settings:
        raise UsageError(f"{folder}: there is no run, settings.toml is missing: name a run folder")
    return Run(path)
