"""``fedlearn audit``: every privacy claim, put to the test."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from fedlearn.errors import RunFailed


def audit(
    draws: Annotated[int, typer.Option(min=1000, help="Outputs of each data set; more prove more.")] = 100_000,
    seed: Annotated[int | None, typer.Option(help="Audit seeded noise; without it the secure one.")] = None,
) -> None:
    """Try to refute every privacy claim by experiment, and check that the auditor catches what is wrong.

    Exit code 1 if a claim is refuted, or if the paper's printed algorithm or a planted bug is not.
    """
    from fedlearn.privacy.audit import Verdict, audit_everything
    from fedlearn.privacy.audit_cases import MECHANISM_CASES
    from fedlearn.trees.as_printed.audits import PRINTED_CLAIMS
    from fedlearn.trees.classes.audits import CLASS_PLANTED_BUGS, CLASS_TREE_CASES
    from fedlearn.trees.numbers.audits import PLANTED_BUGS, TREE_CASES
    from fedlearn.trees.sums.audits import SUMS_CASES, SUMS_PLANTED_BUGS

    sound = MECHANISM_CASES | TREE_CASES | CLASS_TREE_CASES | SUMS_CASES
    wrong_claims = PLANTED_BUGS | CLASS_PLANTED_BUGS | SUMS_PLANTED_BUGS | PRINTED_CLAIMS
    expected = dict.fromkeys(sound, Verdict.NOT_REFUTED) | dict.fromkeys(wrong_claims, Verdict.REFUTED)
    table = Table("what is audited", "claimed", "at least", "verdict", title="epsilon, claimed and measured")
    wrong = []
    for name, case in (sound | wrong_claims).items():
        (result,) = audit_everything(draws, seed, {name: case})
        is_expected = result.verdict is expected[name]
        wrong += [] if is_expected else [str(result)]
        color = "green" if is_expected else "bold red"
        table.add_row(name, f"{result.claimed:g}", f"{result.measured:.3f}", f"[{color}]{result.verdict}[/]")
    Console(highlight=False).print(table)
    print("Measured bounds hold with confidence 0.9999 each. A claim that is not refuted is not thereby proved.")
    if wrong:
        raise RunFailed("not as it must be: " + "; ".join(wrong))
