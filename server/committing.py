"""Committing: the next state is made of what was reported, evaluated, stored and logged. Every schedule does it so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from fedlearn.aggregation import STATE
from fedlearn.core.cohort import At, Fate, NodeReport, Typical
from fedlearn.core.errors import RunFailed
from fedlearn.core.metric import TRAIN_LOSS, Measured, virtual_time
from fedlearn.core.state import Array, Sends, State, kept_in_bounds
from fedlearn.models.loaded import auxiliary_of, condensed_in
from fedlearn.runs.history import RoundRecord
from server.attempt import RUN_AGAIN, Collected, NotCommitted, Reporting
from server.feature import Measures, NewState
from server.feature import measured as measured_with
from server.gate.limits import FEWEST, measured, too_far, typical_after
from server.phases.evaluation import evaluate, is_due
from server.phases.node_rows import rows_of
from server.phases.quorum import missing_quorum
from server.phases.reporting import tell
from server.run import ServerRun
from server.selectors import Participation, selector_memory
from strategies.base import Step, Turn


@dataclass(frozen=True, slots=True)
class UnderWay:
    """The nodes that still work, after a commit, on an instruction from before it.

    Parameters
    ----------
    memory
        The arrays of these nodes that a resume needs, under names that no strategy has.
    versions
        The rounds whose stored states these nodes work on.
    """

    memory: Mapping[str, Array] = field(default_factory=dict)
    versions: Collection[int] = ()


def committed_or_not(run: ServerRun, collected: Collected, at: At) -> NotCommitted | None:
    """Commit what was collected, or abandon it and return why.

    That is: reports that must be judged anew, no quorum, or a state that is not finite. Where no other attempt may be
    made, as after a secure sum, the round is skipped instead.
    """
    if collected.reporting.skipped:
        skip(run, collected, at, collected.reporting.skipped)
        return None
    anew = judged_anew(run, collected.reporting, at, missing_quorum(run, collected.reporting))
    reason = anew or missing_quorum(run, collected.reporting)
    step = None if reason else next_step(run, collected.reporting, at)
    if step is None:
        reason = reason or "the new state would hold NaN or infinity"
        if run.config.samples_poisson:
            raise RunFailed(f"round {at.round_number}: {reason}; with Poisson sampling no draw is made again")
        if collected.reporting.is_final:
            skip(run, collected, at, reason)
            return None
        abandon(run, collected.reporting, at, reason)
        outcome = collected.reporting.outcome if run.exchange.is_virtual and not anew else ""
        return NotCommitted(reason, collected.reporting.raised_alike, is_judged_anew=bool(anew), outcome=outcome)
    commit(run, step, collected, at)
    return None


def judged_anew(run: ServerRun, reporting: Reporting, at: At, missing: str) -> str:
    """Take what is typical from this cohort, where the gate had nothing to compare it with, or what no longer holds.

    Nothing is known in the first round, where only a report that goes too far beside the others changes anything. What
    was known no longer holds where the gate has refused most of a cohort by it, or so many that the quorum is missed:
    nodes that learn otherwise than in the round before are never locked out.

    Parameters
    ----------
    missing
        What the quorum is missed by, or nothing.

    Returns
    -------
    str
        Why the attempt must be made again; empty where it need not.
    """
    reports = measured(reporting.reports)
    if not run.traits.update_kind.is_averaged or len(reports) < FEWEST or run.config.protects_nodes:
        return ""
    if run.typical is None:
        found = too_far(reports, run.config.gate)
        both = zip(reporting.members, reporting.reports, strict=True)
        members = [member for member, report in both if report.num_examples]  # of those that were measured
        for place, why in found.items():
            member = members[place]
            where = {"node": member.node_id, "partition": member.partition_id}
            run.events.write("too-far", **at.where, **where, reason=why)
        reason = f"{len(found)} of {len(reports)} reports go too far beside the others" if found else ""
    else:
        refused = len(reports) - reporting.count(Fate.REPORTED)
        reason = missing if refused else ""
        if 2 * refused > len(reports):
            unlike = f"{refused} of {len(reports)} reports are unlike those of the last round"
            reason = f"{unlike}; {missing}" if missing else unlike
    if reason:
        run.typical = _typical_after(run, reports)
        reason += RUN_AGAIN
    return reason


def next_step(run: ServerRun, reporting: Reporting, at: At, sends: Sends | None = None) -> Step | None:
    """Return the strategy's next step; None, with the strategy unchanged, if that step is not finite.

    Not finite may be the state, or what the strategy carries to the next round.

    Parameters
    ----------
    sends
        What was added up, if it is not what the nodes have sent.
    """
    memory = run.strategy.memory()
    turn = Turn(
        state=run.state,
        total=reporting.sums[STATE],
        parcels={name: total for name, total in reporting.sums.items() if name != STATE},
        sends=sends or Sends(run.config.sends),
        at=at,
        members=reporting.members,
        reports=reporting.reports,
        clients=run.config.clients,
        noise=run.draws.noise(at),
    )
    for each in run.features:
        turn = each.turn(turn)
    with run.draws.to_compute(run.strategy, "next state", at):
        step = run.strategy.next_state(turn)
    if run.traits.update_kind.is_averaged:
        step = replace(step, state=_with_auxiliary(run, kept_in_bounds(step.state, run.state)))
    if run.traits.condenses:
        (found,) = run.exchange.compute(condensed_in, step.state, [()])
        step = replace(step, state=found)
    carried = [*step.state.values(), *run.strategy.memory().values()]
    if all(array.dtype.kind != "f" or np.isfinite(array).all() for array in carried):
        return step
    run.strategy.remember(memory)
    return None


def _with_auxiliary(run: ServerRun, state: State) -> State:
    """Return a new state whose auxiliary arrays the module has computed, from those before: none comes from a node."""
    if not run.traits.auxiliary:
        return state
    begun = {**state, **{name: run.state[name] for name in run.traits.auxiliary}}
    (found,) = run.exchange.compute(auxiliary_of, begun, [()])
    return {**state, **found}


def abandon(run: ServerRun, reporting: Reporting, at: At, reason: str) -> None:
    """Leave the state as it is, and tell those whose reports were in time that they count for nothing."""
    run.events.write("abandoned", **at.where, reason=reason)
    tell(run, reporting, {Fate.REPORTED: "abandoned"}, at)


def skip(run: ServerRun, collected: Collected, at: At, reason: str) -> None:
    """Commit a round that leaves the state as it is, and notify the nodes whose reports were in time.

    A second sum of the round, over other nodes, would tell what one of them has sent.
    """
    reporting = collected.reporting
    run.events.write("skipped", **at.where, reason=reason)
    tell(run, reporting, {Fate.REPORTED: "skipped"}, at)
    unused = [
        report._replace(fate=Fate.REFUSED, reason=reason) if report.fate is Fate.REPORTED else report
        for report in reporting.reports
    ]
    commit(run, Step(run.state), replace(collected, reporting=replace(reporting, reports=unused)), at)


def commit(
    run: ServerRun, step: Step, collected: Collected, at: At, under_way: Callable[[], UnderWay] | None = None
) -> None:
    """Evaluate the new state, store it, where that is due, with what is under way meanwhile, and log the round."""
    begin, keep_every = run.wall.now(), run.rounds.keep_every
    reporting = collected.reporting
    found = measured_with(run.features, NewState(step.state, at, reporting), partial(_evaluated, run))
    scores = {**found.columns, **_in_virtual_time(run, collected)}
    if run.exchange.timed:
        run.notices.clear()  # answers take no time there: they belong to this round, also after a resume
    traffic = run.exchange.take_traffic()
    before = run.store.history.rounds[-1].measured if run.store.history.rounds else {}
    record = RoundRecord(
        round_number=at.round_number,
        attempts=at.attempt,
        ready=collected.ready,
        cohort=len(reporting.members),
        reported=reporting.count(Fate.REPORTED),
        failed=reporting.count(Fate.FAILED),
        refused=reporting.count(Fate.REFUSED),
        late=reporting.count(Fate.LATE),
        bytes_down=traffic.down,
        bytes_up=traffic.up,
        uploads=traffic.uploads,
        bytes_protocol=traffic.protocol,
        selection_seconds=collected.selection_seconds,
        training_seconds=collected.training_seconds,
        evaluation_seconds=run.wall.now() - begin,
        measured={
            **run.store.metrics.combined(reporting.reports, before),
            **reporting.means,
            **scores,
            **step.measured,
        },
    )
    counted = measured([report for report in reporting.reports if report.fate is Fate.REPORTED])
    if run.traits.update_kind.is_averaged and len(counted) >= FEWEST and not run.config.protects_nodes:
        run.typical = _typical_after(run, counted)
    run.nodes.append(rows_of(run, reporting, found.nodes, at))
    run.events.flush()  # what a commit says of the log must be there
    run.selector.learn(_participations(reporting), at.round_number)
    run.stopping.take(record)
    run.finish(step.state)
    is_kept = bool(keep_every) and at.round_number % keep_every == 0
    is_drawn_again = run.config.server_adds_noise and not run.draws.are_seeded  # after a kill: none of it may be left
    if is_kept and not is_drawn_again:
        run.store.keep_model(step.state, at.round_number)
    if is_kept or _is_stored_after(run, at.round_number):
        _store(run, step, record, UnderWay() if under_way is None else under_way())
    else:
        run.store.put_off(step.state, record, is_worked_on=under_way is not None)
    if is_kept and is_drawn_again:
        run.store.keep_model(step.state, at.round_number)
    if step.left_out:
        left_out = [partition for place in step.left_out for partition in reporting.counted[place]]
        run.events.write("left-out", **at.where, partitions=left_out)
    row = record.as_row()
    run.events.write("committed", attempt=at.attempt, round=row.pop("round_number"), **row)


def _is_stored_after(run: ServerRun, round_number: int) -> bool:
    rounds = run.rounds
    is_last = round_number == rounds.total or bool(run.stopping.reason)
    return run.traits.is_private or run.config.protects_nodes or round_number % rounds.store_every == 0 or is_last


def _store(run: ServerRun, step: Step, record: RoundRecord, under_way: UnderWay) -> None:
    memory = {
        **run.strategy.memory(),
        **run.draws.memory(),
        **selector_memory(run.selector),
        **{name: array for each in run.features for name, array in each.memory(under_way.versions).items()},
        **under_way.memory,
    }
    run.store.save(
        step.state, memory, record,
        changed_nodes=run.exchange.changed_node_states(), all_nodes=run.exchange.node_states,
        seconds=run.time.seconds, cpu_seconds=run.time.processor.lately(), typical=run.typical,
        versions=under_way.versions,
    )  # fmt: skip


def _typical_after(run: ServerRun, reports: Sequence[NodeReport]) -> Typical:
    """Return the medians for the next reports; a strategy that asks for more than the state goes by the past."""
    asks_for_more = bool(run.answers)
    return typical_after(run.typical, reports, clients=run.config.clients, goes_by_what_nodes_keep=asks_for_more)


def _participations(reporting: Reporting) -> list[Participation]:
    """Return the facts of a round that a selector may learn, in the order of positions."""
    return [
        Participation(member.partition_id, report.num_examples, report.metrics.get(TRAIN_LOSS.name), seconds)
        for member, report, seconds in zip(reporting.members, reporting.reports, reporting.seconds, strict=True)
    ]


def _in_virtual_time(run: ServerRun, collected: Collected) -> Measured:
    """Return the times of the round on its devices: its end, its phases, and whose reports count."""
    timed, reporting = run.exchange.timed, collected.reporting
    if timed is None:
        return {}
    ends = zip(reporting.members, reporting.reports, strict=True)
    counted = Counter(timed.group_of(member.node_id) for member, report in ends if report.fate is Fate.REPORTED)
    values = (run.clock.now(), *collected.virtual, *(counted[group] for group in timed.groups))
    return {metric.name: value for metric, value in zip(virtual_time(timed.groups), values, strict=True)}


def _evaluated(run: ServerRun, new: NewState) -> Measures:
    """Return the metrics of a new state, where it is to be evaluated; None in all columns where it is not."""
    names = [metric.name for metric in run.traits.metrics.evaluated]
    if not is_due(run, new.at.round_number):
        return Measures(run.as_columns(dict.fromkeys(names)))
    run.events.write("evaluating", round=new.at.round_number)
    assert new.reporting is not None
    found = evaluate(run, new.state, new.reporting, names, round_number=new.at.round_number)
    return replace(found, columns=run.as_columns(found.columns))
