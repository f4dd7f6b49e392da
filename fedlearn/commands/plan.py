"""``fedlearn plan``: the bytes of a run, or the noise that a promise costs, before anything is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedlearn.commands.flags import Assignments, ConfigFiles, with_flags
from fedlearn.commands.planned_noise import DELTA, EPSILON, plan_noise
from fedlearn.config import flat_from_assignments
from fedlearn.config.names import flags

if TYPE_CHECKING:
    from fedlearn.sweeps.estimate import Foretold

EXAMPLES = """\
Examples:

fedlearn plan --clients 100 --cohort 10 --compression drop --rounds 100

fedlearn plan --devices phones --send update --compression ternary:0.01

fedlearn plan --epsilon 8 --delta 1e-5 --clients 1000 --cohort 100 --rounds 50

fedlearn plan --private records --epsilon 8 --delta 1e-5 --records 600 --batch-size 50 --steps 12"""

NOISE = "Noise: with --epsilon and --delta"


@with_flags({setting: flag for setting, flag in flags().items() if setting != "out"})
def plan(
    given: dict[str, Any],
    config: ConfigFiles = None,
    set_: Assignments = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print only JSON: the bytes.")] = False,
    separation: Annotated[
        int,
        typer.Option(
            min=0,
            rich_help_panel=NOISE,
            help="Rounds from one participation of a client to its next (privacy.separation); 0: as many as clients "
            "and availability allow, and some fewer.",
        ),
    ] = 0,
    availability: Annotated[
        float, typer.Option(min=0, max=1, help="Share of clients that are ready.", rich_help_panel=NOISE)
    ] = 1.0,
    records: Annotated[
        int, typer.Option(min=1, help="Declared number of records of a client.", rich_help_panel=NOISE)
    ] = 1000,
    steps: Annotated[int, typer.Option(min=1, help="Steps of a round.", rich_help_panel=NOISE)] = 20,
    parameters: Annotated[
        int, typer.Option(min=1, help="Number of parameters of the model; cnn has 62006.", rich_help_panel=NOISE)
    ] = 62_006,
) -> None:  # fmt: skip
    """Predict the bytes of a run, uplink and downlink, by a trial of few clients and rounds.

    With --devices also the seconds of a client in a round. With --epsilon and --delta instead the required noise, by
    assumption about participation: "noise / clip" is the norm of the noise in one round's (step's) mean, in clipping
    norms; "error" is the noise in the model after all rounds, relative to sampling with a tight account. Then --rounds
    is 30 and --batch-size 50 by default.
    """
    given = given | flat_from_assignments(set_ or [])
    if not {EPSILON, DELTA} <= given.keys():
        _plan_bytes(given, config or [], as_json=as_json)
        return
    plan_noise(
        given,
        separation=separation,
        availability=availability,
        records=records,
        steps=steps,
        parameters=parameters,
    )


def _plan_bytes(given: dict[str, Any], files: list[Path], *, as_json: bool) -> None:
    from tempfile import TemporaryDirectory

    from fedlearn.commands.run_once import run_once
    from fedlearn.commands.shared import run_settings
    from fedlearn.sweeps.estimate import foretell

    with TemporaryDirectory(prefix="fedlearn-plan-") as place:
        config = run_settings({**given, "out": f"{place}/run"}, files, None)
        found = foretell(config, lambda trial: run_once(trial, is_new=True))
    if as_json:
        print(json.dumps(found.to_plain(), indent=2))
    else:
        _show_bytes(found)


def _show_bytes(found: Foretold) -> None:
    from fedlearn.report.numbers import bits, seconds, size
    from fedlearn.report.tables import Table

    total = found.bytes_down + found.bytes_up
    rows = [
        ("down", size(found.message_down), bits(found.bits_down), size(found.bytes_down)),
        ("up", size(found.message_up), bits(found.bits_up), size(found.bytes_up)),
        ("both", size(found.message_down + found.message_up), bits(found.bits_down + found.bits_up), size(total)),
    ]
    title = f"{found.model} on {found.dataset}: {found.parameters} parameters, {found.nodes} clients in each "
    heads = ("way", "a message", "bits a parameter", "the whole run")
    Table.of_texts("plan", f"{title}of {found.rounds} rounds", heads, rows, words=1).show()
    if (on := found.devices) is not None:
        times = [("download", on.download), ("training", on.training), ("upload", on.upload), ("all", on.whole)]
        parts = [(what, seconds(time)) for what, time in [*times, ("all, of the slowest client", on.slowest)]]
        Table.of_texts(
            "devices", f"a round of the median client on {on.name}; {on.lost:.0%} of trainings are lost",
            ("part", "time"), parts, words=1,
        ).show()  # fmt: skip
