"""The ServerApp: puts the parts of a run together and runs its rounds."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedlearn.config import RunConfig, from_flower, to_flower
from fedlearn.config.fields import seconds_in
from fedlearn.core.errors import RunFailed, SettingError
from fedlearn.core.node import NodeTrial
from fedlearn.core.stopping import Stopped, shielded
from fedlearn.data.cache import checked
from fedlearn.models.loaded import initial_state, trial, with_found_data
from fedlearn.plugins.registry import call_plugin
from fedlearn.plugins.tables import CLIENT_TRIAL
from fedlearn.runs.arithmetic import changes_since, refuse
from fedlearn.runs.checkpoint import RunStore
from fedlearn.runs.checksums import write_checksums
from fedlearn.runs.code_identity import checked_code, said_of_accepted
from fedlearn.runs.folder import RunFolder, new_folder
from fedlearn.runs.label_counts import write_dealt
from fedlearn.runs.log import EventLog
from fedlearn.runs.names import MANIFEST
from fedlearn.runs.settings import kept_settings
from fedlearn.runs.stop_requests import stoppable
from server.exchange.exchange import Exchange
from server.feature import begin
from server.feature import rest_of as rest_of_features
from server.phases.tested import tested
from server.planning.compatibility import check_devices, check_parcels
from server.planning.plan import Plan, planned
from server.results.completed import Completed
from server.results.printing_log import PrintingLog
from server.results.summary import (
    learning_rate,
    noise_notice,
    parameters,
    plain_bytes,
    write_analysis,
    write_counted,
    write_summary,
)
from server.run import ServerRun
from server.schedules import Schedule, rest_of
from server.selectors import Selector, load_selector, remember
from server.strategy_rng import Draws
from strategies import RoundStrategy, load_strategy

log = logging.getLogger(__name__)

app = ServerApp()
CHANGES_CONCERNING = "fedlearn.models.arithmetic:concerning"  # by its name, as it imports torch


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds of a new run, or those that are left of the one in the run folder."""
    with opened(grid, context) as (run, schedule), stoppable(run.store.folder, seconds_in(run.config.stop.time_limit)):
        schedule.run()


@contextmanager
def opened(grid: Grid, context: Context) -> Iterator[tuple[ServerRun, Schedule]]:
    """Yield a new or resumed run, all of it checked, with its schedule; write its results after the block."""
    config, exchange = _reached(grid, context)
    folder = RunFolder(Path(config.out) if config.out else new_folder())
    selector = load_selector(config)
    check_devices(config, selector, is_virtual=exchange.is_virtual, is_timed=exchange.timed is not None)
    log_of = EventLog if exchange.is_virtual else PrintingLog
    with folder.locked(), log_of(folder.events, exchange.clock if exchange.timed else None) as events:
        code = checked_code(folder.path, config)
        draws = Draws(config, is_virtual=exchange.is_virtual)
        with draws.to_compute(None, "make"):
            strategy = load_strategy(config.strategy)
        plan = planned(config, exchange, strategy)
        completed = Completed(folder)
        store, notes = _begun_or_resumed(plan, exchange, folder, strategy, selector, draws, code)
        run = ServerRun(
            exchange, strategy, store, plan.config,
            events=events, kind=plan.traits.update_kind, draws=draws, model_metrics=plan.metrics, selector=selector,
            is_private=plan.traits.is_private, test_is_public=plan.traits.test_is_public,
            unsent=plan.traits.unsent, auxiliary=plan.traits.auxiliary, has_own_rate=plan.traits.has_own_rate,
            finishes=plan.traits.finishes,
            notes=(*notes, *plan.notes, *said_of_accepted(folder.path)), features=plan.features,
        )  # fmt: skip
        schedule: Schedule = call_plugin("rounds.schedule", config.rounds.schedule, plan.make_schedule, run)
        if not hasattr(schedule, "run"):
            raise SettingError("rounds.schedule", config.rounds.schedule, "what it makes is no schedule: it has no run")
        run.stopping.say_of(folder.path, committed=len(store.history.rounds))
        (folder.path / MANIFEST).unlink(missing_ok=True)  # of what the folder held before
        events.write("started", **_about(run))
        with _summarized(run, folder, completed):
            yield run, schedule
            run.tested = tested(run)
            if plan.traits.counts:
                write_counted(run)
            if plan.traits.analyzes:
                write_analysis(run)


def _reached(grid: Grid, context: Context) -> tuple[RunConfig, Exchange]:
    """Return the settings with the data that were found, and what reaches the nodes; a simulation has looked before."""
    config = from_flower(context.run_config)
    exchange = Exchange(grid, context.run_config)
    if exchange.is_virtual:
        return config, exchange
    with checked():
        config = with_found_data(config)
    return config, Exchange(grid, to_flower(config))


def _begun_or_resumed(
    plan: Plan,
    exchange: Exchange,
    folder: RunFolder,
    strategy: RoundStrategy[Any],
    selector: Selector,
    draws: Draws,
    code: Mapping[str, str],
) -> tuple[RunStore, Sequence[str]]:
    """Return the store of the run, with its first state or the last stored one; and what is likely not meant."""
    config, traits = plan.config, plan.traits
    tried = trial_of(exchange, deadline=config.rounds.reporting_deadline)
    store = RunStore(
        folder.path, plan.columns, kept_settings(config),
        data=plan.fingerprint, code=code, tied=traits.tied, unsent=traits.unsent,
    )  # fmt: skip
    if store.exists:
        folder.check_settings(config)
        folder.check_table(traits.spec)
        store.load()
        if since := changes_since(store.arithmetic):
            refuse([name for name in exchange.ask(CHANGES_CONCERNING, tuple) if name in since], folder.path)
        begin(plan.features, store.state, store.memory)
        _check_rounds(config, store, folder)
        folder.write_settings(config)
        rest = rest_of_features(plan.features, rest_of(store.memory))
        strategy.remember(remember(selector, draws.remember(rest)))
        exchange.restore_node_states(store.node_states)
        exchange.go_on_from(store.history)
    else:
        was_begun = folder.has_settings
        for note in tried.notes:
            log.warning("%s", note)
        folder.write_settings(config)  # first: a folder with a state can then always be resumed
        state = exchange.ask(initial_state)
        check_parcels(strategy, state, personal=config.training.personal)
        begin(plan.features, state, {})
        store.begin(state)
        if was_begun:
            log.warning("%s: no round was stored in this folder: the run begins from nothing", folder.path)
    if tried.why_not_stacked:
        log.warning(
            "training.stack = %d: clients are trained one by one: %s", config.training.stack, tried.why_not_stacked
        )
    folder.write_spec(traits.spec)
    if tried.dealt is not None:
        write_dealt(folder.path, tried.dealt)
    of_features = (notice for each in plan.features for notice in each.notices())
    found = (*tried.notes, *of_features)
    return store, tuple(filter(None, found))


def trial_of(exchange: Exchange, *, deadline: float) -> NodeTrial:
    """Let model and learner try what they do, so that what cannot be is refused; return what came of it.

    Parameters
    ----------
    deadline
        The reporting deadline, in seconds: a trial that hangs ends the run after three times as long, as an evaluation
        does; on virtual time, after the hour that a worker has at most.
    """
    seconds = None if exchange.timed else deadline
    of_model = exchange.ask(trial, seconds=seconds)
    if not exchange.is_virtual:  # there a learner may be known to the nodes alone
        return NodeTrial(of_model)
    try:
        of_nodes = exchange.ask(CLIENT_TRIAL, NodeTrial, seconds=seconds)
    except RunFailed as error:  # as where code of the user's has ended the process
        raise RunFailed(f"a trial of the learner, before round 1: {error}") from None
    return replace(of_nodes, notes=(*of_model, *of_nodes.notes))


def _check_rounds(config: RunConfig, store: RunStore, folder: RunFolder) -> None:
    """Refuse to end a run earlier than it has come."""
    committed = len(store.history.rounds)
    if config.rounds.total < committed:
        raise SettingError(
            "rounds.total", config.rounds.total,
            f"the run in {folder.path} has {committed} rounds: ask for more of them, or leave it out",
        )  # fmt: skip


def _about(run: ServerRun) -> dict[str, object]:
    """Return what a watcher of the event log wants to know first.

    A state that grows has no plain report that all others could be compared with.
    """
    config, store = run.config, run.store
    notices = [config.data.notice, noise_notice(run), *run.notes]
    return {
        "committed": len(store.history.rounds),
        "rounds": config.rounds.total,
        "clients": config.clients,
        "cohort": config.goal_count,
        "dataset": config.data.dataset,
        "notice": "; ".join(notice for notice in notices if notice),
        "model": config.model.name,
        "codec": config.compression.codec,
        "strategy": config.strategy.name,
        **({"learning_rate": rate} if (rate := learning_rate(config)) and not run.has_own_rate else {}),
        "seed": config.seed,
        "metrics": store.metrics.to_plain(),
        "plain_bytes": plain_bytes(run) if run.kind.is_averaged else 0,
        "parameters": parameters(run),
    }


@contextmanager
def _summarized(run: ServerRun, folder: RunFolder, before: Completed) -> Iterator[None]:
    """Write the summary of what is run in the block, however it ends.

    A completed run of which further rounds were asked, and none was committed, stays what it was.
    """
    status, reason = "failed", ""
    try:
        yield
        status = "completed"
    except KeyboardInterrupt as error:
        status, reason = "interrupted", error.reason if isinstance(error, Stopped) else ""
        if not run.exchange.is_virtual:
            raise SystemExit(0) from None  # Flower's way to end a server app in order
        raise
    except SystemExit as error:
        is_stopped = not (run.exchange.is_virtual or error.code)  # on a network: Flower's way to end by SIGTERM
        status, reason = ("interrupted", "") if is_stopped else (status, str(error))
        raise
    except BaseException as error:
        reason = str(error) or type(error).__name__
        raise
    finally:
        with shielded():
            if status == "failed" and before.put_back(run.store.history):
                status = "completed"
            else:
                write_summary(folder, run, status=status, reason=reason)
            run.events.write("ended", status=status, reason=reason)
            write_checksums(folder.path)
