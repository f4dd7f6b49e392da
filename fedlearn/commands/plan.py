"""``fedlearn plan``: what noise a promise costs, before anything is run."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fedlearn.words.errors import UsageError

if TYPE_CHECKING:
    from fedlearn.privacy.factorization import Option

NODES, RECORDS = "Nodes (with --private nodes)", "Records (with --private records)"


class Protected(StrEnum):
    """Unit of data that is protected."""

    NODES = "nodes"
    RECORDS = "records"


def plan(
    epsilon: Annotated[float, typer.Option(help="Largest privacy loss of the whole run, in nats.")],
    delta: Annotated[float, typer.Option(help="Probability with which it may be larger; well below 1 / units.")],
    private: Annotated[
        Protected, typer.Option(help="What is protected: all data of a node, or each record of one node.")
    ] = Protected.NODES,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds.")] = 30,
    clients: Annotated[int, typer.Option(min=1, help="Number of nodes.", rich_help_panel=NODES)] = 100,
    cohort: Annotated[int, typer.Option(min=1, help="Nodes of a round, expected.", rich_help_panel=NODES)] = 20,
    separation: Annotated[
        int,
        typer.Option(
            min=0,
            rich_help_panel=NODES,
            help="Rounds from one participation of a node to its next (privacy.separation); 0: as many as nodes and "
            "availability allow, and some fewer.",
        ),
    ] = 0,
    availability: Annotated[
        float, typer.Option(min=0, max=1, help="Share of nodes that are ready.", rich_help_panel=NODES)
    ] = 1.0,
    records: Annotated[int, typer.Option(min=1, help="Declared number of records.", rich_help_panel=RECORDS)] = 1000,
    batch_size: Annotated[int, typer.Option(min=1, help="Records of a step, expected.", rich_help_panel=RECORDS)] = 50,
    steps: Annotated[int, typer.Option(min=1, help="Steps of a round.", rich_help_panel=RECORDS)] = 20,
    parameters: Annotated[int, typer.Option(min=1, help="Numbers of the model; cnn has 62006.")] = 62_006,
) -> None:
    """Print the noise that a promise needs, by what may be assumed about participation; nothing is run.

    Each line is a way to keep the same promise. "Noise / clip" is the norm of the noise in one round's (step's) mean,
    in clipping norms. "Error" is the noise in the model after all rounds, relative to sampling with a tight account.
    """
    units, taken, times = (
        (clients, cohort, rounds) if private is Protected.NODES else (records, batch_size, rounds * steps)
    )
    if taken > units:
        names = ("cohort", "clients") if private is Protected.NODES else ("batch-size", "records")
        raise UsageError(f"--{names[0]} {taken}: must be at most --{names[1]} {units}")
    from fedlearn.privacy.factorization import options

    wait = separation if private is Protected.NODES else 1
    try:
        ways = options(
            epsilon,
            delta,
            rounds=times,
            units=units,
            taken=taken,
            separation=wait,
            availability=availability,
            what=private,
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    _show(ways, epsilon, delta, private, taken, parameters)


def _show(ways: list[Option], epsilon: float, delta: float, private: Protected, taken: int, parameters: int) -> None:
    from fedlearn.privacy.accounts import Guarantee
    from fedlearn.privacy.budget import NeighboringRelation, PrivacyUnit
    from fedlearn.privacy.factorization.planning import SAMPLING
    from fedlearn.report.tables import Table

    unit = PrivacyUnit.NODE if private is Protected.NODES else PrivacyUnit.RECORD
    trust = "trusted server" if private is Protected.NODES else "each node trusts itself alone"
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
