"""The exact audit of runs that protect nodes, of `fedlearn audit --nodes`: whole runs on neighboring federations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from fedlearn.auditing.planting import Planted
from fedlearn.auditing.recording import NotAlike
from fedlearn.auditing.run_auditor import Replayed, RunLoss, Tape, loss_of_runs
from fedlearn.commands.leaving import Leaving
from fedlearn.core.errors import FedlearnError
from fedlearn.core.metric import EPSILON
from fedlearn.plugins.registry import load_reference
from fedlearn.plugins.tables import NODE_AUDITS
from fedlearn.privacy.mechanisms.interception import intercepted_by
from fedlearn.runs.file_names import SUMMARY

CENTRAL = {
    "model.name": NODE_AUDITS["model"], "data.dataset": "digits", "clients": 6, "rounds.cohort": 0, "rounds.total": 3,
    "rounds.quorum": 0.1, "rounds.backoff": 0.0, "rounds.max_attempts": 2, "privacy.protects": "nodes",
    "privacy.epsilon": 4.0, "privacy.delta": 1e-5, "privacy.clip": 0.5, "training.stack": 1, "engine.name": "inline",
}  # fmt: skip
LOCAL = {**CENTRAL, "privacy.trust": "local", "rounds.cohort": 0, "rounds.quorum": 0.5}
SHARED = {
    "privacy.trust": "distributed", "rounds.minimum_ready": 1.0, "rounds.quorum": 0.6, "secure.dropouts": 0.2,
}  # fmt: skip
POISSON = {"rounds.selector": "poisson"}
WAYS: Mapping[str, Mapping[str, Any]] = {
    "central": CENTRAL,
    "sampled": {**CENTRAL, **POISSON, "rounds.cohort": 2},
    "adaptive": {**CENTRAL, "privacy.clip_quantile": 0.5},
    "correlated": {**CENTRAL, "clients": 9, "rounds.cohort": 3, "rounds.total": 7, "privacy.separation": 3},
    "inverse": {
        **CENTRAL,
        "clients": 9,
        "rounds.cohort": 3,
        "rounds.total": 7,
        "privacy.separation": 3,
        "privacy.bands": 2,
    },
    "distributed": {**LOCAL, **SHARED},
    "skellam": {**LOCAL, **SHARED, "privacy.shares": "skellam", "secure.bits": 14},
    "local": LOCAL,
    "fedavgm": {**CENTRAL, "strategy.name": "fedavgm"},
    "fedadam": {**CENTRAL, "strategy.name": "fedadam"},
    "scalars": {
        **CENTRAL,
        "model.name": "linear",
        "strategy.name": "decomfl",
        "training.options": {"directions": 512},
    },
    "alone": {**CENTRAL, **POISSON, "rounds.cohort": 1, "rounds.total": 7},
    "coins": {**CENTRAL, **POISSON, "clients": 32, "rounds.cohort": 16, "rounds.total": 32},
    "secure": {**CENTRAL, "privacy.noise": "secure"},
    "secure shares": {**LOCAL, **SHARED, "privacy.noise": "secure"},
}
"""Row of the audit -> settings of its runs."""
IN_WORDS = {
    "central": "noise of the server, fixed cohorts", "sampled": "noise of the server, Poisson sampling",
    "adaptive": "clipping norm that follows a quantile", "correlated": "correlated noise, nodes wait 3 rounds",
    "inverse": "correlated noise, two bands of the inverse",
    "distributed": "shares of noise of the nodes", "skellam": "shares of Skellam noise",
    "local": "noise of each node", "fedavgm": "fedavgm after the noise",
    "fedadam": "fedadam after the noise", "scalars": "derivatives along directions, noise of the server",
    "alone": "Poisson sampling, rounds without a node",
    "coins": "Poisson sampling, 32 nodes and rounds", "secure": "secure noise of the server",
    "secure shares": "secure shares of noise of the nodes",
}  # fmt: skip
ATTACKER = 2  # partition of the node that differs
ATTACKERS = {
    "correlated": 3,
    "inverse": 3,
    "sampled": 5,
    "alone": 1,
}  # in three of seven rounds; in two of three; alone in one
FEW = ("far in one parameter", "far in the parameter without a dimension", "far in all")  # against a mistake


class AuditedRun(NamedTuple):
    """What the audit says of one row, as it is or with a mistake."""

    name: str
    is_sound: bool
    loss: RunLoss

    @property
    def is_as_expected(self) -> bool:
        """Whether a sound row was not refuted, or a mistake was."""
        return self.loss.is_refuted is not self.is_sound


class NodesAudit:
    """Replays runs of one row on neighboring federations.

    Parameters
    ----------
    way : str
        Name of the row.
    absent : frozenset of int
        Partitions of the nodes that report in neither run.
    """

    def __init__(self, way: str, absent: frozenset[int] = frozenset()) -> None:
        self._settings = WAYS[way]
        self._rate = 1.0
        if self._settings.get("rounds.selector") == "poisson":
            self._rate = self._settings["rounds.cohort"] / self._settings["clients"]
        self._attacker = ATTACKERS.get(way, ATTACKER)
        self._takes_turns = not {"privacy.trust", "privacy.separation"}.isdisjoint(self._settings)
        self._absent = absent

    def loss(self, change: Mapping[str, float]) -> RunLoss:
        """Return the loss where a node makes a change, or is not there (or changes nothing, by its relation)."""
        try:
            first = self._run(change, None)
            return loss_of_runs(first, self._run(None, first))
        except (NotAlike, FedlearnError) as error:  # a run that fails tells as well
            return RunLoss(math.inf, str(error))

    def _run(self, change: Mapping[str, float] | None, given: Replayed | None) -> Replayed:
        from fedlearn.commands.run_once import run_once
        from fedlearn.commands.shared import run_settings

        is_absent = change is None and not self._takes_turns  # else zeros are in its place, beside its own noise
        changes = {self._attacker: change or dict.fromkeys(("scale", "weight", "bias"), 0.0)}
        absent = self._absent | ({self._attacker} if is_absent else frozenset())
        leaving, undrawn = Leaving(), load_reference(NODE_AUDITS["undrawn"])
        with TemporaryDirectory() as place, load_reference(NODE_AUDITS["chosen"])(changes, absent) as fits:
            folder = Path(place) / "run"
            tape = Tape(lambda: fits[-1][0] if fits else 0, None if given is None else given.calls)
            with intercepted_by(tape), leaving.recorded(), undrawn(absent):
                config = run_settings({**self._settings, "out": str(folder)}, [], None, environment={})
                run_once(config, is_new=True, log=[leaving.listener])
            return self._published(leaving.of(folder), tape, fits)

    def _published(self, left: dict[str, Any], tape: Tape, fits: list[tuple[int, int]]) -> Replayed:
        summary, settings = left[SUMMARY], self._settings
        took_part = np.zeros((settings["rounds.total"], settings["clients"]), bool)
        for number, node in fits:
            took_part[number - 1, node] = True
        is_secure = settings.get("privacy.noise") == "secure"
        delta, rounds = settings["privacy.delta"], summary["rounds"]
        return Replayed(tape.calls, left, summary[EPSILON.name], delta, rounds, self._rate, took_part, is_secure)


def audited_nodes() -> Iterator[AuditedRun]:
    """Yield what the audit says of each row, as it is, and of each mistake that is planted in one; then of sampling."""
    for way in WAYS:
        yield AuditedRun(IN_WORDS[way], True, loss_of(way))
    for mistake in mistakes():
        yield AuditedRun(f"{mistake.way}: {mistake.name}", False, loss_with(mistake))
    yield from (AuditedRun(*found) for found in load_reference(NODE_AUDITS["draws"])())


def loss_of(way: str) -> RunLoss:
    """Return the largest loss of a row, over all changes of a hostile node."""
    return _largest(NodesAudit(way), load_reference(NODE_AUDITS["changes"]).values())


def loss_with(mistake: Planted) -> RunLoss:
    """Return the largest loss of a row with a mistake, where the gate is blind."""
    changes = load_reference(NODE_AUDITS["changes"])
    with ExitStack() as stack:
        stack.enter_context(load_reference(NODE_AUDITS["unguarded"])())
        stack.enter_context(mistake.plant())
        if mistake.beside:
            stack.enter_context(load_reference(NODE_AUDITS[mistake.beside])())
        return _largest(NodesAudit(mistake.way, mistake.absent), (changes[name] for name in FEW))


def mistakes() -> list[Planted]:
    """Return all mistakes, of servers and of nodes."""
    return [each for side in ("server", "client") for each in load_reference(NODE_AUDITS[f"mistakes of a {side}"])]


def _largest(audit: NodesAudit, changes: Iterable[Mapping[str, float]]) -> RunLoss:
    """Return the largest loss; no further change is tried once the claim is refuted."""
    found = RunLoss(0.0)
    for change in changes:
        found = max(found, audit.loss(change), key=lambda loss: loss.share)
        if found.is_refuted:
            break
    return found
