"""`fedlearn.by_hand`: a run whose rounds the caller makes, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self, Unpack

from fedlearn.api.given import flat_settings
from fedlearn.api.isolated_call import guest
from fedlearn.api.keywords import Keywords
from fedlearn.api.result import Run
from fedlearn.api.spelled import as_called
from fedlearn.commands.shared import resumable, run_settings
from fedlearn.config import RunConfig, to_flower
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.core.state import State
from fedlearn.engine.prepare import prepared
from fedlearn.plugins.own_packages import claimed
from fedlearn.plugins.registry import load_reference
from fedlearn.plugins.tables import SERVER_BY_HAND, SERVER_OPENED
from fedlearn.runs.kept_objects import objects_kept

ENGINE = "inline"  # the caller's process


class ByHand:
    """A run whose rounds are made by its methods: `select`, `train`, `aggregate`, `evaluate`, again and again.

    Each round has the bytes of the same round of `fedlearn.run`. A step that is asked for twice in its round, as when
    a cell of a notebook is run again, is made once. The run folder is that of any run: `finish` returns it.

    Attributes
    ----------
    state : dict
        The global model as named arrays.
    round_number : int
        The round that is under way, from 1.
    folder : Path
        The run folder.
    """

    def __init__(self, config: RunConfig) -> None:
        self.folder = Path(config.out)
        self._open = ExitStack()
        with guest(), claimed(), resumable(self.folder), ExitStack() as stack:
            self._rounds = _rounds(config, stack)
            self._open = stack.pop_all()

    @contextmanager
    def _at_work(self) -> Iterator[Any]:
        if self._rounds is None:
            raise UsageError(f"{self.folder}: these rounds are finished: begin others")
        from fedlearn import flower

        with guest(), claimed():
            flower.enter_run()
            yield self._rounds

    @property
    def state(self) -> State:
        """The global model as named arrays: that before round 1, or the last aggregated one."""
        with self._at_work() as rounds:
            return dict(rounds.server.state)

    @property
    def round_number(self) -> int:
        """The round that is under way, from 1."""
        with self._at_work() as rounds:
            return int(rounds.at.round_number)

    def select(self) -> list[int]:
        """Return the clients of this round, which the server draws among those that are ready."""
        with self._at_work() as rounds:
            return [member.partition_id for member in rounds.select().cohort]

    def train(self, clients: int | Iterable[int]) -> Any:
        """Return what clients of this round make of the global model on their own examples.

        Parameters
        ----------
        clients
            Clients that `select` has returned, or one of them.

        Returns
        -------
        list of ClientUpdate, or one for one client
            With ``client``, ``examples``, ``metrics``, ``arrays`` (its weights or their change), ``bytes``.
        """
        with self._at_work() as rounds:
            several = list(clients) if isinstance(clients, Iterable) else None
            updates = rounds.train([clients] if several is None else several)
            return updates[0] if several is None else updates

    def aggregate(self, updates: Sequence[Any]) -> State:
        """Return the new global model, which the strategy makes of updates, and end the round.

        Clients whose update is left out count as late. With fewer updates than ``rounds.quorum`` asks for the model
        stays as it is, and the round is begun anew.
        """
        with self._at_work() as rounds:
            return dict(rounds.aggregate(list(updates)))

    def evaluate(self, state: State | None = None) -> dict[str, float | None]:
        """Return the scores of a model, by default the global one, on the test examples of the run."""
        with self._at_work() as rounds:
            return dict(rounds.evaluate(rounds.server.state if state is None else state))

    def finish(self) -> Run:
        """Write the results; return the run. One with rounds left is interrupted: ``fedlearn.run(resume=...)``."""
        with self._at_work() as rounds:
            self._rounds = None
            if rounds.at.round_number > rounds.server.rounds.total:
                self._open.close()
            else:
                stop = KeyboardInterrupt()
                with suppress(KeyboardInterrupt):
                    self._open.__exit__(KeyboardInterrupt, stop, None)
        return Run(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._rounds is not None:
            self.finish()

    def __repr__(self) -> str:
        return f"<ByHand {self.folder}>"


def by_hand(
    clients: int | None = None,
    *,
    data: Any = None,
    model: Any = None,
    settings: Mapping[str, Any] | None = None,
    **keywords: Unpack[Keywords],
) -> ByHand:
    """Begin a run whose rounds are made step by step: ``select``, ``train``, ``aggregate``, ``evaluate``.

    Parameters
    ----------
    clients, data, model, settings, **keywords
        As of `fedlearn.run`: the rounds have the bytes of that run. It runs in this process.

    Raises
    ------
    UsageError
        If a setting is wrong, or is one that rounds by hand cannot have: secure sums, devices, other schedules.

    Examples
    --------
    >>> rounds = fedlearn.by_hand(clients=3, data="digits", model="linear", rounds=1)
    >>> updates = rounds.train(rounds.select())
    >>> sorted(rounds.aggregate(updates)), sorted(rounds.evaluate())
    (['1.bias', '1.weight'], ['accuracy', 'loss'])
    >>> rounds.finish().summary["status"]
    'completed'
    """
    called: dict[str, Any] = {"clients": clients, "data": data, "model": model, "engine": ENGINE, **keywords}
    with as_called(called), guest():
        given = flat_settings(called, settings or {})
        if (engine := given["engine.name"]) != ENGINE:
            raise SettingError("engine.name", engine, "rounds by hand run in this process: leave it out")
        return ByHand(run_settings(given, [], None))


def _rounds(config: RunConfig, stack: ExitStack) -> Any:
    """Return the rounds of a run that is opened, and closed with the stack."""
    from fedlearn import flower
    from fedlearn.engine.apps import load_client_app
    from fedlearn.engine.inline import InlineGrid

    flower.enter_run()
    flower.log_as_we_do()
    stack.enter_context(objects_kept(config))
    flat = to_flower(prepared(config))
    grid = InlineGrid(load_client_app(), config.clients, flat)
    opened = load_reference(SERVER_OPENED)(grid, flower.server_context(flat))
    return load_reference(SERVER_BY_HAND)(stack.enter_context(opened)[0])
