"""The ledger of a node: what one question is, where the ledger is stored, one answer to each question.

With ``node-config ledger`` the ledger lies in that folder, by the name of the data (`fedlearn.runs.ledgers`): it is of
the node's owner, over all runs and servers. Nodes that hold shares of one table have one ledger for all of it, as the
server's seed says which record is whose. Without, it is a part of the node's memory: in a simulation it lies in the
run's checkpoint, where it is stored before a report is written down, on a network it is as long-lived as ``node-config
memory``, by run folder.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from client.examples import has_few_records
from client.isolated_fits import learner_of
from client.learners.learner import LocalTask
from client.memory import NodeMemory
from client.owner.error_disclosure import BUDGET_SPENT, Withheld
from client.owner.owner_refusals import NOT_ENOUGH
from client.request import Request
from fedlearn.config import RunConfig, per_run
from fedlearn.config.policy import Policy
from fedlearn.core.state import State
from fedlearn.models import model_spec
from fedlearn.privacy import PrivacySpent, PrivacyUnit, largest_loss
from fedlearn.privacy.accounts.repeated_gaussian import GaussianRounds
from fedlearn.privacy.bookings import Booking
from fedlearn.privacy.ledger import Ledger
from fedlearn.privacy.local_dp import OwnNoise
from fedlearn.runs.ledgers import LedgerFile

if TYPE_CHECKING:
    from fedlearn.privacy.local_dp import OwnNoise

LEDGER = "ledger"  # name of the lines among a memory's texts
PUBLISHED = "published"  # name of the answers among its arrays
BEFORE_LEDGERS = "account"  # name of what a node kept in its place
NO_LEDGER = "no-ledger"
MATTERS = {"clients", "seed", "data", "model", "training", "privacy"}
"""The settings on which an answer depends; where a run is stored, and how long it is, is none of them."""

OF_RECORDS = ("protects", "delta", "clip", "noise_multiplier", "records", "participations")
"""The settings of ``privacy`` that pure epsilon knows nothing of."""

OF_NODES = ("separation", "clip_quantile", "population", "population_cohort")
"""The settings of ``privacy`` that no ledger knows of: they are of runs that protect nodes."""


class InMemory:
    """The storage of a ledger that is a part of a node's memory.

    Parameters
    ----------
    is_latest
        Keep the latest answer alone, as one of a network's size: a round before the last is then answered no more.
    """

    name = ""

    def __init__(self, memory: NodeMemory, *, is_latest: bool = False) -> None:
        self._memory = memory
        self._is_latest = is_latest

    def alone(self) -> AbstractContextManager[None]:
        """Return a block that no other process spends in: only one message at a time reads a memory."""
        return nullcontext()

    def read(self) -> bytes:
        """Return all lines."""
        return self._memory.texts.get(LEDGER, "").encode()

    def append(self, lines: bytes) -> None:
        """Append whole lines."""
        self._memory.texts[LEDGER] = self._memory.texts.get(LEDGER, "") + lines.decode()

    def keep(self, sha256: str, answer: bytes) -> None:
        """Keep the bytes of an answer."""
        others = {} if self._is_latest else self._memory.arrays.get(PUBLISHED, {})
        self._memory.arrays[PUBLISHED] = {**others, sha256: np.frombuffer(answer, np.uint8)}

    def kept(self, sha256: str) -> bytes:
        """Return the bytes of an answer; empty where they are gone."""
        answer = self._memory.arrays.get(PUBLISHED, {}).get(sha256)
        return b"" if answer is None else answer.tobytes()

    def is_full(self) -> bool:
        """Return False: a memory belongs to one run, whose questions are few."""
        return False


class NodeBudget:
    """What one node may spend in one run.

    Parameters
    ----------
    cost
        The epsilon of one answer, if a record is added or removed.
    mechanism
        The Gaussian mechanism of one answer, in place of a cost.
    planned
        How often the mechanism is repeated in the whole run.

    Raises
    ------
    Withheld
        If the data are the node's own and it has no ledger, or has spent its budget before there were any.
    """

    def __init__(
        self, request: Request, *, cost: float, mechanism: GaussianRounds | None = None, planned: int = 0
    ) -> None:
        config = request.config
        self._ledger = _ledger_of(request)
        self._config, self._cost = config, 0.0 if mechanism else cost
        self._mechanism, self._planned = mechanism, planned
        self._delta = config.privacy.delta if mechanism else 0.0
        self._is_at_home = bool(request.context.node_config.get("ledger"))
        self._run = run_of(config)
        if self._is_at_home and not request.holds_own_data:  # a record lies in one share of a run
            self._run = f"{self._run}/{request.partition_id}"

    @classmethod
    def of_round(cls, request: Request, round_number: int) -> NodeBudget:
        """Return what the node may spend, where an answer costs what the learner says for this round."""
        config, learner = request.config, learner_of(request.config)
        if config.nodes_add_noise:
            noise = own_noise(config)
            return cls(request, cost=0.0, mechanism=noise.mechanism, planned=noise.rounds)
        if (mechanism := learner.mechanism(round_number=round_number)) is not None:
            return cls(request, cost=0.0, mechanism=mechanism, planned=learner.planned())
        return cls(request, cost=learner.cost(config.privacy.epsilon, round_number=round_number))

    @property
    def budget(self) -> float:
        """The largest loss of a record in this run."""
        return self._loss(self._config.privacy.epsilon).epsilon

    def has_answered(self, round_number: int) -> bool:
        """Return whether the node has published an answer in a round of this run."""
        return self._ledger.has_answered(self._run, round_number)

    def why_not(self, round_number: int) -> str:
        """Return why the node has no answer in a round; empty where it has one, new or published before."""
        booking = self._booking("", round_number)
        if self._ledger.has_answered(self._run, round_number) or self._ledger.covers(
            booking, budget=self.budget, delta=self._delta
        ):
            return ""
        spent = self._ledger.spent(self._run, delta=self._delta, budget=self.budget).epsilon
        return f"budget spent: {spent:g} of epsilon {self.budget:g}" if spent else BUDGET_SPENT

    def once(self, state: State, task: LocalTask, answer: Callable[[], bytes]) -> bytes:
        """Return what was published for a question, or pay for it, have it answered and keep the answer.

        Raises
        ------
        BudgetExceeded
            If it was not published, and does not fit.
        """
        booking = self._booking(question_of(self._run, state, task), task.round_number)
        return self._ledger.once(booking, answer, budget=self.budget, delta=self._delta)

    def _booking(self, question: str, round_number: int) -> Booking:
        loss = self._loss(self._cost)
        now = int(time.time()) if self._is_at_home else 0  # in a simulation the same bytes whenever it is run
        return Booking(
            question, self._run, self._config.model.name, round_number, loss.epsilon, loss.relation, loss.is_secure,
            now, PrivacyUnit.NODE if self._config.nodes_add_noise else PrivacyUnit.RECORD,
            mechanism=self._mechanism, planned=self._planned,
        )  # fmt: skip

    def _loss(self, epsilon: float) -> PrivacySpent:
        return largest_loss(epsilon, self._config.privacy)


@per_run
def own_noise(config: RunConfig) -> OwnNoise:
    """Return the noise that a node of this run adds to its change, which its ledger books."""
    return OwnNoise.of(config)


def run_of(config: RunConfig) -> str:
    """Return the digest of the settings that the questions of a run have in common.

    Two runs that agree in them are one to the ledger: a run folder that was moved, a run that was submitted again.
    """
    divides = model_spec(config.model.name).is_planned  # its budget by the rounds
    matters = MATTERS | {"rounds"} if divides else MATTERS
    if config.privacy.trust == "distributed":
        # A share of noise goes by how many reports a sum has, and two sums of the same share would tell it apart.
        matters = matters | {"rounds", "secure", "out"}
    plain = config.model_dump(mode="json", include=matters)
    if config.protects_records or config.nodes_add_noise:
        plain["fits"] = config.privacy.participations or config.rounds.total  # for which noise is calibrated
    later = OF_NODES if config.protects_records or config.nodes_add_noise else OF_RECORDS + OF_NODES
    for name in later:  # the digests of runs that were begun before there were these settings
        del plain["privacy"][name]
    if config.privacy.shares == "gaussian":
        del plain["privacy"]["shares"]
    if not config.rounds.features:
        plain.get("rounds", {}).pop("features", None)
    del plain["data"]["notice"]
    return sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def question_of(run: str, state: State, task: LocalTask) -> str:
    """Return the digest of all that an answer depends on beside data and noise: run, round, node, and what was sent.

    The attempt is no part of it: a round that was abandoned asks the same again.
    """
    told = {name: repr(value) for name, value in task.config.items()}
    digest = sha256(json.dumps([run, task.round_number, task.partition_id, told], sort_keys=True).encode())
    for parcel, arrays in [("", state), *sorted(task.parcels.items())]:
        _add(digest.update, parcel, arrays)
    return digest.hexdigest()


def _add(update: Callable[[bytes], None], parcel: str, arrays: Mapping[str, Any]) -> None:
    for name, array in sorted(arrays.items()):
        update(json.dumps([parcel, name, array.dtype.str, array.shape]).encode())
        update(np.ascontiguousarray(array).tobytes())


def _ledger_of(request: Request) -> Ledger:
    node_config = request.context.node_config
    folder = node_config.get("ledger")
    if folder:
        policy = Policy.of_node(node_config)
        if has_few_records(request):
            raise Withheld(NOT_ENOUGH)
        file = LedgerFile(Path(str(folder)), str(node_config.get("data-name", "")))
        return Ledger(file, most=policy.largest_epsilon, most_questions=policy.most_questions, delta=policy.delta)
    if request.holds_own_data:
        raise Withheld(NO_LEDGER)
    if BEFORE_LEDGERS in request.memory.texts:
        raise Withheld(BUDGET_SPENT)
    return Ledger(
        InMemory(request.memory, is_latest=request.config.nodes_add_noise), delta=request.config.privacy.delta
    )
