"""``fedlearn audit``: test every privacy claim."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from fedlearn.core.errors import RunFailed, UsageError
from fedlearn.plugins.registry import load_reference
from fedlearn.plugins.tables import CLIENT_AUDITS, CLIENT_CANARIES, CLIENT_DOORS, CLIENT_FITS


def audit(
    draws: Annotated[
        int | None, typer.Option(min=1000, help="Outputs of each data set (default 100000, seeded 400000).")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Audit noise of this seed (default: secure noise).")] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Compute losses by replaying whole fits and clients' updates.")
    ] = False,
    pairs: Annotated[
        int | None, typer.Option(min=1, help="Neighboring data sets for each replay (default 2000).")
    ] = None,
    networks: Annotated[
        bool, typer.Option("--networks", help="Audit DP-SGD: sums of neighbors, and trainings with canaries.")
    ] = False,
    nodes: Annotated[
        bool, typer.Option("--nodes", help="Audit client-level privacy: whole runs of neighboring federations.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="With --networks: number of trainings with canaries (default 5).")
    ] = None,
) -> None:
    """Try to refute every privacy claim, by experiment or exactly, and check that the auditor detects planted bugs.

    Exit code 1 if a claim is refuted, or if a planted bug (such as an error of 5 %) is not.
    """
    if draws is not None and exact:
        raise UsageError("--draws is for the audit by experiment; --exact takes --pairs")
    if pairs is not None and not exact:
        raise UsageError("--pairs is for --exact; the audit by experiment takes --draws")
    if seeds is not None and not networks:
        raise UsageError("--seeds is for --networks, which trains once with each")
    if networks and (exact or nodes or draws is not None or seed is not None):
        raise UsageError("--networks takes --seeds alone")
    if nodes and (exact or draws is not None or seed is not None):
        raise UsageError("--nodes takes no other option: its runs are fixed")
    if networks:
        wrong = _of_networks(seeds or 5)
    elif nodes:
        wrong = _of_nodes()
    elif exact:
        wrong = _replayed(pairs or 2000, seed or 0)
    else:
        wrong = _measured(draws or (100_000 if seed is None else 400_000), seed)
    if wrong:
        raise RunFailed("not as it must be: " + "; ".join(wrong))


def _measured(draws: int, seed: int | None) -> list[str]:
    """Print the verdict on each claim by experiment; return a line for each verdict that is not the expected one."""
    from fedlearn.auditing import Verdict, audit_everything
    from fedlearn.auditing.cases import MECHANISM_CASES, MECHANISM_PLANTED_BUGS
    from fedlearn.auditing.gaussian_cases import GAUSSIAN_CASES, GAUSSIAN_PLANTED_BUGS
    from fedlearn.auditing.trees.classes_audits import CLASS_PLANTED_BUGS, CLASS_TREE_CASES
    from fedlearn.auditing.trees.numbers_audits import PLANTED_BUGS, TREE_CASES
    from fedlearn.auditing.trees.sums_audits import SUMS_CASES, SUMS_PLANTED_BUGS

    sound = MECHANISM_CASES | GAUSSIAN_CASES | TREE_CASES | CLASS_TREE_CASES | SUMS_CASES
    planted = MECHANISM_PLANTED_BUGS | GAUSSIAN_PLANTED_BUGS
    wrong_claims = PLANTED_BUGS | CLASS_PLANTED_BUGS | SUMS_PLANTED_BUGS | planted
    expected = dict.fromkeys(sound, Verdict.NOT_REFUTED) | dict.fromkeys(wrong_claims, Verdict.REFUTED)
    table = Table("what is audited", "claimed", "at least", "verdict", title="epsilon, claimed and measured")
    wrong = []
    for name, case in (sound | wrong_claims).items():
        (result,) = audit_everything(draws, seed, {name: case})
        is_expected = result.verdict is expected[name]
        wrong += [] if is_expected else [str(result)]
        color = "green" if is_expected else "bold red"
        table.add_row(name, f"{result.claimed:.4g}", f"{result.measured:.3f}", f"[{color}]{result.verdict}[/]")
    Console(highlight=False).print(table)
    print("Measured bounds hold with confidence 0.9999 each. A claim that is not refuted is not thereby proved.")
    return wrong


def _replayed(pairs: int, seed: int) -> list[str]:
    """Print the losses that replays compute; return a line for each claim that is refuted, and each slip not found."""
    from fedlearn.auditing.federated_trees import file_replays as files
    from fedlearn.auditing.federated_trees import replays as nodes
    from fedlearn.auditing.replay import replay
    from fedlearn.auditing.trees import classes_replays as classes
    from fedlearn.auditing.trees import numbers_replays as numbers
    from fedlearn.auditing.trees import searching_replays as searches
    from fedlearn.auditing.trees import sums_replays as sums

    columns = ("what is replayed", "pairs", "largest loss", "seconds", "slips found")
    table = Table(*columns, title="privacy loss, as a share of the claim; planted slips of 5 %")
    wrong = []
    rows = numbers.REPLAYS | classes.REPLAYS | sums.REPLAYS | searches.REPLAYS | nodes.REPLAYS
    for name, draw in (rows | files.FILES).items():
        count = max(pairs // files.FEWER, 1) if name in files.FILES else pairs
        result = replay(name, draw, pairs=count, seed=seed)
        wrong += [str(result)] if result.is_refuted or result.missed or result.is_blind else []
        found = len(result.slips) - len(result.missed)
        loss = f"[{'bold red' if result.is_refuted else 'green'}]{result.largest:.6f}[/]"
        slips = f"[{'bold red' if result.missed else 'green'}]{found} of {len(result.slips)}[/]"
        table.add_row(name, str(count), loss, f"{result.seconds:.1f}", slips)
    Console(highlight=False).print(table)
    print("The losses are those of the pairs and answers that were drawn; samplers are audited without --exact.")
    return wrong


def _of_networks(seeds: int) -> list[str]:
    """Print what both audits of DP-SGD find; return a line for each verdict that is not the expected one."""
    columns = ("learner", "sums of neighbors", "canaries: epsilon at least")
    table = Table(*columns, title="DP-SGD as it is, and with mistakes: what is refuted is red")
    wrong = []
    for each in load_reference(CLIENT_AUDITS)():
        wrong += [] if each.is_as_expected else [f"{each.name}: {each.exact}; {each.seen}"]
        exact, seen = f"{each.exact.largest:.4f} of the claim", f"{each.seen.measured:.2f} of {each.seen.claimed:g}"
        table.add_row(each.name, _red(exact, each.exact.is_refuted), _red(seen, each.seen.is_refuted))
    for name, is_sound, loss in (*load_reference(CLIENT_FITS)(), *load_reference(CLIENT_DOORS)()):
        wrong += [] if loss.is_refuted is not is_sound else [f"{name}: {loss}"]
        table.add_row(name, _red(str(loss), loss.is_refuted), "")
    Console(highlight=False).print(table)
    audited = load_reference(CLIENT_CANARIES)
    above = 0
    for seed in range(1, seeds + 1):
        result = audited(seed=seed)
        above += result.is_refuted
        print(f"seed {seed}: {result}", flush=True)
    print(f"{above} of {seeds} trainings above the claim; a sound learner is above it once in a thousand at most")
    if above > max(seeds // 100, 1):
        wrong.append(f"{above} of {seeds} trainings prove more than the claim")
    return wrong


def _of_nodes() -> list[str]:
    """Print what replays of whole runs find; return a line for each verdict that is not the expected one."""
    from fedlearn.commands.audited_nodes import audited_nodes

    table = Table("what is replayed", "largest loss", title="runs that protect nodes, and mistakes in red")
    wrong = []
    for each in audited_nodes():
        wrong += [] if each.is_as_expected else [f"{each.name}: {each.loss}"]
        table.add_row(each.name, _red(str(each.loss), each.loss.is_refuted))
    Console(highlight=False).print(table)
    print("The losses are those of the nodes' changes that were tried; samplers of noise are audited without --nodes.")
    return wrong


def _red(text: str, is_refuted: bool) -> str:
    return f"[bold red]{text}[/]" if is_refuted else text
