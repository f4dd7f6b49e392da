"""Lies of attackers that know all honest reports of a round: made on the server, in simulations only.

An attacker trains, reports and passes the gate as an honest node does. When all reports have come, the changes of the
attackers are replaced by what the attack makes of the honest changes; these lies pass the gate's limits on lengths, and
are added up with the other changes as the strategy says. A round without any honest report has no lie. Memory is what
the cohort sent, and 8 bytes for each entry of each honest node, some three times where deviations are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedlearn.aggregation import STATE, FoldPlan
from fedlearn.aggregation.fold import ParcelFold
from fedlearn.attacks import Attack, Float64, attack_of, attackers_of
from fedlearn.core.cohort import At, Fate, Member, NodeReport
from fedlearn.core.errors import Refused, RunFailed
from fedlearn.core.seeding import rng_for
from fedlearn.core.state import Entries, Sends, State, Update
from server.attempt import Reporting
from server.gate.limits import Limits
from server.gate.norms import NOTHING, norm_of
from server.run import ServerRun
from strategies.collected import Collected
from strategies.robust.geometry import Changes

COLLECTED = "strategies.collected:Collected"


def side_by_side(plan: FoldPlan) -> FoldPlan:
    """Return the plan that leaves reports apart, as attackers are to see each of them."""
    state = replace(plan.parcels[STATE], accumulator=COLLECTED, steps=())
    return replace(plan, parcels={**plan.parcels, STATE: state})


def with_lies(run: ServerRun, reporting: Reporting, at: At, plan: FoldPlan) -> Reporting:
    """Return reports that lie side by side with the lies of attackers that see them, added up as `plan` says."""
    attack, collected = attack_of(run.config), reporting.sums[STATE]
    assert attack is not None and isinstance(collected, Collected)
    told = [
        (member, report)
        for member, report in zip(reporting.members, reporting.reports, strict=True)
        if report.fate is Fate.REPORTED
    ]
    updates = [update for _, update in collected.updates]
    lying = [place for place, (member, _) in enumerate(told) if member.partition_id in attackers_of(run.config)]
    honest = [place for place in range(len(told)) if place not in lying]
    after = {report.position: report for report in reporting.reports}
    if lying and honest:
        changes = Changes(run.state, [updates[place] for place in honest], Sends(run.config.sends))
        rng = rng_for(run.config.seed, purpose="attack", round_number=at.round_number, attempt=at.attempt)
        lies = _lies(attack, _dense(changes), attackers=len(lying), rng=rng)
        for place, lie in zip(lying, lies, strict=True):
            updates[place] = _as_sent(lie, updates[place], run.state, changes.sends)
            report = _gated(run, told[place][1], updates[place], cohort=len(reporting.members))
            after[report.position] = report
            _log(run, told[place][0], report, at)
    fold = ParcelFold(plan.parcels[STATE])
    total = fold.empty()
    counted = [(after[report.position], update) for (_, report), update in zip(told, updates, strict=True)]
    total.add([fold.part(r.num_examples, update) for r, update in counted if r.fate is Fate.REPORTED])
    reports = [after[report.position] for report in reporting.reports]
    return replace(reporting, reports=reports, sums={**reporting.sums, STATE: total})


def _lies(attack: Attack, changes: Float64, *, attackers: int, rng: np.random.Generator) -> Float64:
    """Return what the attack makes of the honest changes; refuse what is not of the shape that it must have."""
    lies = np.asarray(attack.lies(changes, attackers=attackers, rng=rng), np.float64)
    if lies.shape != (attackers, changes.shape[1]):
        raise RunFailed(
            f"attack.name: {type(attack).__name__}.lies returned an array of shape {lies.shape}, expected is "
            f"(attackers, entries): {(attackers, changes.shape[1])}"
        )
    return lies


def _floats(state: State) -> Sequence[str]:
    return [name for name in sorted(state) if state[name].dtype.kind == "f"]


def _dense(changes: Changes) -> Float64:
    """Return the changes of all float parameters, shape (nodes, entries); null is the mean of what the others sent."""
    blocks = []
    for name in _floats(changes.state):
        for _, values in changes.columns(name):
            sent = ~np.isnan(values)
            sums, counts = np.where(sent, values, 0.0).sum(axis=0), sent.sum(axis=0)
            blocks.append(np.where(sent, values, sums / np.maximum(counts, 1)))
    return np.concatenate(blocks, axis=1)


def _as_sent(lie: Float64, update: Update, state: State, sends: Sends) -> dict[str, Entries]:
    """Return a lie in the entries that its node's codec would send; what is no float stays honest."""
    found, start = dict(update), 0
    for name in _floats(state):
        flat, entries = state[name].reshape(-1), update.get(name)
        values = lie[start : start + flat.size]
        start += flat.size
        if entries is not None:
            where = slice(None) if entries.positions is None else entries.positions
            wide = values[where] + (flat[where].astype(np.float64) if sends is Sends.WEIGHTS else 0.0)
            found[name] = Entries(wide.astype(entries.values.dtype), entries.positions)
    return found


def _gated(run: ServerRun, report: NodeReport, update: Update, *, cohort: int) -> NodeReport:
    """Return the report of a lie after the gate's checks of values: NaN, and how far it goes."""
    config = run.config
    try:
        norm = norm_of(update, NOTHING if config.sends == "update" else run.state)
        sent = norm if config.sends == "update" else norm_of(update)
    except Refused as refused:
        return report._replace(fate=Fate.REFUSED, num_examples=0, reason=str(refused), norm=0.0)
    if config.gate.max_norm and sent > config.gate.max_norm:
        reason = f"norm-too-large: L2 norm {sent:.6g}, allowed is {config.gate.max_norm:g}"
        return report._replace(fate=Fate.REFUSED, num_examples=0, reason=reason, norm=0.0)
    why = Limits(run.typical, cohort, config.gate).why_not(norm, report.num_examples) if run.typical else ""
    return report._replace(fate=Fate.REFUSED if why else Fate.REPORTED, reason=why or report.reason, norm=norm)


def _log(run: ServerRun, member: Member, report: NodeReport, at: At) -> None:
    where = {**at.where, "node": member.node_id, "partition": member.partition_id}
    detail = {"norm": float(f"{report.norm:.6g}"), **({"reason": report.reason} if report.reason else {})}
    run.events.write("refused" if report.fate is Fate.REFUSED else "lied", **where, **detail)
