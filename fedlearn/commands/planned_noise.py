"""The noise that a promise costs, by what may be assumed about participation: a part of ``fedlearn plan``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import typer

from fedlearn.config import config_from
from fedlearn.core.errors import UsageError, said

if TYPE_CHECKING:
    from fedlearn.privacy.factorization import Option

EPSILON, DELTA, PROTECTED = "privacy.epsilon", "privacy.delta", "privacy.protects"
USUAL = {"rounds.total": "30", "clients": "100", "rounds.cohort": "20", "training.batch_size": "50"}
"""Settings on which the noise of a promise depends, with the values that they have unless given."""


class Protected(StrEnum):
    """Unit of data that is protected."""

    NODES = "nodes"
    RECORDS = "records"


def plan_noise(
    given: Mapping[str, Any], *, separation: int, availability: float, records: int, steps: int, parameters: int
) -> None:
    """Print a line for each way to keep the promise that the settings name.

    Raises
    ------
    UsageError
        If there is no such promise, or more units take part than there are.
    """
    counts = config_from({name: given.get(name, usual) for name, usual in USUAL.items()})
    private = _protected(given)
    cohort, batch = counts.rounds.cohort, counts.training.batch_size
    units, taken, times = (
        (counts.clients, cohort, counts.rounds.total)
        if private is Protected.NODES
        else (records, batch, counts.rounds.total * steps)
    )
    if taken > units:
        names = ("cohort", "clients") if private is Protected.NODES else ("batch-size", "records")
        raise UsageError(f"--{names[0]} {taken}: must be at most --{names[1]} {units}")
    from fedlearn.privacy.factorization import options

    wait = separation if private is Protected.NODES else 1
    epsilon, delta = (_number(given, setting) for setting in (EPSILON, DELTA))
    try:
        ways = options(
            epsilon,
            delta,
            rounds=times,
            units=units,
            taken=taken,
            separation=wait,
            availability=availability,
            what="clients" if private is Protected.NODES else private,
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    _show(ways, epsilon, delta, private, taken, parameters)


def _protected(given: Mapping[str, Any]) -> Protected:
    try:
        return Protected(given.get(PROTECTED) or Protected.NODES)
    except ValueError:
        raise UsageError(f"--private {said(given[PROTECTED])}: choose nodes or records") from None


def _number(given: Mapping[str, Any], setting: str) -> float:
    try:
        return float(given[setting])
    except ValueError:
        raise UsageError(f"--{setting.rpartition('.')[2]} {said(given[setting])}: write a number") from None


def _show(ways: list[Option], epsilon: float, delta: float, private: Protected, taken: int, parameters: int) -> None:
    from fedlearn.privacy.accounts import Guarantee
    from fedlearn.privacy.budget import NeighboringRelation, PrivacyUnit
    from fedlearn.privacy.factorization.planning import SAMPLING
    from fedlearn.report.tables import Table

    unit = PrivacyUnit.NODE if private is Protected.NODES else PrivacyUnit.RECORD
    trust = "trusted server" if private is Protected.NODES else "each client trusts only itself"
    promise = Guarantee(epsilon, delta, NeighboringRelation.ADD_REMOVE, unit, trust, "participation as in each line")
    sampled = next(way.error for way in ways if way.name == SAMPLING)
    rows = [
        (
            way.name,
            way.assumes,
            f"{way.noise_multiplier:.4f}",
            f"{way.noise_multiplier * math.sqrt(parameters) / taken:.3g}",
            f"{way.error / sampled:.3f}",
        )
        for way in ways
    ]
    Table.of_texts(
        "plan", str(promise), ("noise", "assumes", "noise multiplier", "noise / clip", "error"), rows, words=2
    ).show()
    if private is Protected.NODES and ways[0].setting:
        typer.echo(f"Least error: --private nodes --epsilon {epsilon:g} --delta {delta:g} --set {ways[0].setting}")
