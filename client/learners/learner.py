"""How a node improves the state on its own examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from client.memory import NodeMemory
from fedlearn.config import RunConfig
from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples
from fedlearn.privacy.accounts.repeated_gaussian import GaussianRounds


@dataclass(frozen=True, slots=True)
class LocalTask:
    """The task of one node in one round.

    Parameters
    ----------
    indices
        The node's examples, as rows of the training set, shape (n_examples,).
    seed, round_number, partition_id
        Name the streams of random numbers.
    config
        The strategy's own settings for the round, as FedProx's ``proximal-mu``.
    memory
        What the node keeps from message to message, to be changed in place. It stays although the fit fails, and
        although the server does not count the report; only the sums named in `Learner.counted` are taken back.
    parcels
        What the strategy sent beside the state: name -> named arrays.
    most_examples
        How many examples, over all passes, the node's device has time for (``training.partial``); None sets no limit.

    Examples
    --------
    >>> train = Examples(np.zeros((4, 2), np.float32), np.zeros(4, np.int64))
    >>> task = LocalTask(train, np.arange(4), seed=1, round_number=1, partition_id=0, config={})
    >>> len(task.indices), task.parcels
    (4, {})
    """

    train: Examples
    indices: NDArray[np.integer[Any]]
    seed: int
    round_number: int
    partition_id: int
    config: Mapping[str, Any]
    memory: NodeMemory = field(default_factory=NodeMemory)
    parcels: Mapping[str, State] = field(default_factory=dict)
    most_examples: int | None = None


@dataclass(frozen=True, slots=True)
class LocalFit:
    """The result of one fit: the node's new state, and what it reports beside it.

    Parameters
    ----------
    arrays
        The node's new state; may share memory with the learner, until its next fit.
    num_examples
        The node's number of examples, its weight in a mean.
    metrics
        Measurements of the fit: name -> value.
    parcels
        What the node sends beside its state, where the strategy has asked for it: name -> named arrays.

    Examples
    --------
    >>> fit = LocalFit({"w": np.ones(2)}, num_examples=4, metrics={"train_loss": 0.5})
    >>> fit.answering({"control": {"w": np.zeros(2)}}).parcels["control"]["w"].tolist()
    [0.0, 0.0]
    """

    arrays: State
    num_examples: int
    metrics: dict[str, float]
    parcels: Mapping[str, State] = field(default_factory=dict)

    def replaced(self, arrays: State) -> LocalFit:
        """Return the fit with other values of some parameters: what is not to leave the node, say."""
        return replace(self, arrays={**self.arrays, **arrays})

    def answering(self, parcels: Mapping[str, State]) -> LocalFit:
        """Return the fit with what the node sends beside its state."""
        return replace(self, parcels=parcels)


class Learner(Protocol):
    """One way to improve a state.

    It is made once in each process, by ``from_settings(model, config)`` with the run's model and settings.

    >>> class Halve(Learner):
    ...     def fit(self, state, task):
    ...         return LocalFit({name: array / 2 for name, array in state.items()}, len(task.indices), {})
    >>> task = LocalTask(None, np.arange(4), seed=1, round_number=1, partition_id=0, config={})
    >>> next(Halve().fit_many({"w": np.ones(2)}, [task])).arrays["w"].tolist()
    [0.5, 0.5]
    """

    is_private: ClassVar[bool] = False
    """Whether a fit is paid for by ``privacy.epsilon``, whatever the model; its metric ``epsilon`` is what was spent so
    far. The node then keeps a ledger, by `cost`, and says nothing else of its examples: no other metric, no
    number of examples, no evaluation, no text of an error."""

    counted: ClassVar[tuple[str, ...]] = ()
    """Names of parcels, or ``"state"`` for the change of the state: ``task.memory.arrays[name]`` is the sum of what the
    node has sent under this name, entry by entry, and of what the server has counted. A report that was late, refused
    or of an abandoned attempt is taken out of it (`client.acknowledged_sums`)."""

    @classmethod
    def from_settings(cls, model: Any, config: RunConfig) -> Self:
        """Return the learner of a run; `model` is what its own kind of models is."""
        ...

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the state that the node's examples make of `state`, which stays as it is.

        The same state, task and seed give the same bytes.
        """
        ...

    def fit_many(self, state: State, tasks: Iterable[LocalTask]) -> Iterator[LocalFit]:
        """Yield the fit of each task, in their order; each holds until the next is asked for.

        A learner that can train several nodes in one computation does it here.
        """
        for task in tasks:
            yield self.fit(state, task)

    def draws(self, rows: int) -> bool:
        """Return whether a fit on so many examples draws random numbers that change what it comes to noticeably.

        Where it does not, two rounds with one state are one question for a secure sum (`client.owner.signed_sets`).
        """
        return False

    def why_not_stacked(self, examples: Examples) -> str:
        """Return why `fit_many` should not be asked to train several nodes in one computation; empty if it should.

        Parameters
        ----------
        examples
            Of the training set, to try it on.
        """
        return "" if type(self).fit_many is not Learner.fit_many else "its learner trains one client after another"

    def try_on(self, examples: Examples) -> None:
        """Raise SettingError, before round 1, where a step on examples of the training set fails.

        By default none is tried: the model tries a step itself (`fedlearn.models.model.Tryable`).
        """

    def notes(self) -> Iterable[str]:
        """Return lines that are told before round 1: what in the settings is likely not meant with this learner."""
        return ()

    def personal(self, state: State, memory: NodeMemory) -> State:
        """Return the state that the node itself would use, and measures: what it keeps for itself, in its place."""
        return state

    def check(self, state: State) -> None:
        """Raise Refused for a state that no honest server sends; of a private model it is asked before the ledger."""

    def cost(self, budget: float, *, round_number: int = 1) -> float:
        """Return what a fit in this round costs of the run's budget, in epsilon: all of it, unless it says less.

        The node's ledger books it before `fit` is called, and calls `fit` once for each question of the server.
        """
        return budget

    def mechanism(self, *, round_number: int = 1) -> GaussianRounds | None:
        """Return the Gaussian mechanism that a fit in this round is; None where `cost` says what it costs.

        The ledger books its parameters. All rounds of the run together keep to ``privacy.epsilon`` and
        ``privacy.delta``.
        """
        return None

    def planned(self) -> int:
        """Return how often the mechanism is repeated in the whole run, where that is fixed before round 1; else 0."""
        return 0

    def why_not(self, memory: NodeMemory) -> str:
        """Return why the node cannot learn any more, empty if it can; `memory` is that of its tasks."""
        return ""
