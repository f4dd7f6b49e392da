"""``fedlearn check``: whether algorithms keep their laws."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedlearn.commands.shared import run_settings, unlogged
from fedlearn.core.errors import RunFailed
from fedlearn.core.metric import LOSS

if TYPE_CHECKING:
    from fedlearn.algorithms.conformance.walks import Walk


def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME...]",
            help="Values of strategy.name, or your own module:Class (default: all algorithms).",
        ),
    ] = None,
    claimed: Annotated[
        str, typer.Option("--as", metavar="NAME", help="Algorithm that your own class should equal.")
    ] = "",
) -> None:
    """Check an algorithm against a quadratic problem with a known solution.

    A strategy or a learner makes real runs of the inline engine; any other class needs a method walk. For a
    failed check, the likely cause is printed. Exit code 1 if one fails.
    """
    from fedlearn.algorithms.conformance.subjects import subject_of
    from fedlearn.algorithms.conformance.walks import WALKS

    wrong = []
    for name in names or WALKS:
        with unlogged(logging.WARNING):
            verdicts = subject_of(name, walked, claimed).verdicts()
        if not verdicts:
            print(f"{name:<12} -     has no law on quadratics")
        for verdict in verdicts:
            print(
                f"{name:<12} {'holds' if verdict.holds else 'FAILS'} {verdict.law}{verdict.why and ': ' + verdict.why}"
            )
        wrong += [f"{name}: {verdict.law}" for verdict in verdicts if not verdict.holds]
    if wrong:
        raise RunFailed(f"{len(wrong)} laws fail: {'; '.join(wrong)}")


def walked(settings: Mapping[str, object]) -> Walk:
    """Make a run of the settings in a folder of its own, and return its walk."""
    from fedlearn.algorithms.conformance.walks import Walk
    from fedlearn.commands.run_once import run_once
    from fedlearn.core.state_files import unpack_state
    from fedlearn.runs.file_names import kept_name
    from fedlearn.runs.nodes_csv import read_nodes

    with TemporaryDirectory() as folder:
        config = run_settings({**settings, "out": folder}, [], None, environment={})
        run_once(config, is_new=True)
        problem = import_module(config.model.name.partition(":")[0])
        rounds = range(1, config.rounds.total + 1)
        kept = [unpack_state((Path(folder) / kept_name(number)).read_bytes()) for number in rounds]
        last: list[Mapping[str, Any]] = [row for row in read_nodes(Path(folder)) if row["round"] == config.rounds.total]
        last = [row for row in last if row.get(LOSS.name) is not None]  # of nodes that measure
        losses = [float(row[LOSS.name]) for row in sorted(last, key=lambda row: int(row["partition"]))]
    return Walk([problem.number_in(state, config.training.personal) for state in kept], losses)
