"""The ServerApp: puts the parts of a run together and runs its rounds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedlearn.config import RunConfig, from_flower, to_flower
from fedlearn.config.baselines import note_of
from fedlearn.data.cache import checked
from fedlearn.models.loaded import Traits, initial_state, trial, with_found_data
from fedlearn.models.loaded import traits as traits_of
from fedlearn.plugging.registry import call_plugin
from fedlearn.plugins import CLIENT_ABOUT, CLIENT_TRIAL
from fedlearn.runs.checkpoint import RunStore
from fedlearn.runs.dealt import write_dealt
from fedlearn.runs.folder import RunFolder, new_folder
from fedlearn.runs.history import COLUMNS
from fedlearn.runs.log import OF_EVENTS, EventLog
from fedlearn.runs.settings import kept_settings
from fedlearn.words.errors import RunFailed, SettingError, UsageError
from fedlearn.words.gains import columns_on_nodes
from fedlearn.words.metric import WORK_DONE, Metric, virtual_time
from fedlearn.words.metrics import Metrics
from fedlearn.words.node import NodeTraits, NodeTrial
from server.anchors import expected, metrics_of_anchors, rest_of_anchors
from server.attackers import attack_metrics, attack_notice, check_attack, check_attack_parcels
from server.draws import Draws
from server.exchange import Exchange
from server.fitting import (
    check_baseline,
    check_beside,
    check_devices,
    check_fitting,
    check_parcels,
    check_schedule,
    check_stack,
    check_trust,
)
from server.fitting_private import check_private
from server.node_privacy import NodePrivacy, check_arrays, columns_of, rest_of_noise
from server.phases.apart import apart_metrics
from server.printing_log import PrintingLog
from server.run import ServerRun
from server.schedules import Schedule, load_schedule, metrics_of, rest_of
from server.secure import check_secure, secure_notice
from server.selectors import Selector, load_selector, remember
from server.spending import check_records, cost_of_initial, counted_in, notices_of, promised, without_exact
from server.stopping import check_stopping
from server.summary import learning_rate, noise_notice, parameters, plain_bytes, write_confusions, write_summary
from strategies import RoundStrategy, load_strategy

log = logging.getLogger(__name__)

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds of a new run, or those that are left of the one in the run folder."""
    config, exchange = _reached(grid, context)
    folder = RunFolder(Path(config.out) if config.out else new_folder())
    selector = load_selector(config)
    check_devices(config, selector, is_virtual=exchange.is_virtual, is_timed=exchange.timed is not None)
    log_of = EventLog if exchange.is_virtual else PrintingLog
    with folder.locked(), log_of(folder.events, exchange.clock if exchange.timed else None) as events:
        draws = Draws(config, is_virtual=exchange.is_virtual)
        with draws.to_compute(None, "make"):
            strategy = load_strategy(config.strategy)
        plan = _checked(config, exchange, strategy)
        store, notes = _begun_or_resumed(plan, exchange, folder, strategy, selector, draws)
        run = ServerRun(
            exchange, strategy, store, plan.config,
            events=events, kind=plan.traits.update_kind, draws=draws, model_metrics=plan.metrics, selector=selector,
            is_private=plan.traits.is_private, test_is_public=plan.traits.test_is_public,
            unsent=plan.traits.unsent, notes=(*notes, *plan.notes), has_own_rate=plan.traits.has_own_rate,
        )  # fmt: skip
        schedule: Schedule = call_plugin("rounds.schedule", config.rounds.schedule, plan.make_schedule, run)
        if not hasattr(schedule, "run"):
            raise SettingError("rounds.schedule", config.rounds.schedule, "what it makes is no schedule: it has no run")
        run.stopping.say_of(folder.path, committed=len(store.history.rounds))
        events.write("started", **_about(run))
        with _summarized(run, folder):
            schedule.run()
            write_confusions(run, plan.traits.spec)


def _reached(grid: Grid, context: Context) -> tuple[RunConfig, Exchange]:
    """Return the settings with the data that were found, and what reaches the nodes; a simulation has looked before."""
    config = from_flower(context.run_config)
    exchange = Exchange(grid, context.run_config)
    if exchange.is_virtual:
        return config, exchange
    with checked():
        config = with_found_data(config)
    return config, Exchange(grid, to_flower(config))


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a run will do, all of it checked.

    Parameters
    ----------
    config
        The settings, without what private test rows forbid.
    fingerprint
        Of the data; empty where it would tell of a private row.
    metrics
        What nodes and evaluation measure of the model.
    columns
        What the table of rounds has: the metrics, and what strategy, schedule and devices add.
    notes
        Lines for the results.
    """

    config: RunConfig
    traits: Traits
    fingerprint: str
    metrics: Metrics
    columns: Metrics
    make_schedule: Callable[..., Any]
    notes: Sequence[str] = ()


def _checked(config: RunConfig, exchange: Exchange, strategy: RoundStrategy[Any]) -> _Plan:
    """Return what the run will do; refuse settings that do not go together."""
    make_schedule = load_schedule(config)
    check_records(config)
    traits = exchange.ask(traits_of)
    if has_private_learner(exchange):
        traits = traits.of_private_learner()
    fingerprint, counts_in = traits.fingerprint, ["spent", counted_in(config)]
    if traits.is_private:
        if promised(config).is_secure and not traits.test_is_public:
            fingerprint = ""  # by it, someone who knows all rows but one could find that one
        config = without_exact(config, test_is_public=traits.test_is_public)
        counts_in += notices_of(config, test_is_public=traits.test_is_public)
    check_baseline(config, traits, is_virtual=exchange.is_virtual)
    check_fitting(config, traits, strategy)
    check_trust(config, is_virtual=exchange.is_virtual)
    check_secure(config, traits, strategy, is_virtual=exchange.is_virtual)
    traits, of_batches = check_private(config, traits, strategy, is_virtual=exchange.is_virtual)
    check_attack(config, traits, is_virtual=exchange.is_virtual)
    check_stack(config, stacks=exchange.stacks)
    check_schedule(make_schedule, config, traits, strategy, exchange)
    of_model = traits.metrics.within(promised(config).epsilon, note="; ".join(counts_in))
    if config.training.partial:
        of_model = replace(of_model, reported=(*of_model.reported, WORK_DONE))
    on_devices = virtual_time(exchange.timed.groups) if exchange.timed else ()
    beside = (
        *apart_metrics(config, of_model),
        *columns_of(config),
        *attack_metrics(config),
        *metrics_of_anchors(config),
    )
    added = (*strategy.metrics, *metrics_of(make_schedule), *on_devices, *beside)
    check_beside(config, is_virtual=exchange.is_virtual)
    asked = config.evaluation
    columns = with_columns(of_model, added, on_nodes=bool(asked.nodes), kinds=asked.kinds)
    who = {"is_private": traits.is_private, "test_is_public": traits.test_is_public}
    stops = check_stopping(config, columns, strategy, **who)
    notes = (note_of(config), of_batches, attack_notice(config), cost_of_initial(config, columns), stops)
    return _Plan(config, traits, fingerprint, of_model, columns, make_schedule, tuple(filter(None, notes)))


def _begun_or_resumed(
    plan: _Plan, exchange: Exchange, folder: RunFolder, strategy: RoundStrategy[Any], selector: Selector, draws: Draws
) -> tuple[RunStore, Sequence[str]]:
    """Return the store of the run, with its first state or the last stored one; and what is likely not meant."""
    config, traits = plan.config, plan.traits
    tried = trial_of(exchange, deadline=config.rounds.reporting_deadline)
    store = RunStore(
        folder.path, plan.columns, kept_settings(config), data=plan.fingerprint, tied=traits.tied, unsent=traits.unsent
    )
    if store.exists:
        folder.check_settings(config)
        store.load()
        NodePrivacy.of(config, store.memory)  # refuses rounds that cost more than the budget
        _check_rounds(config, store, folder)
        folder.write_settings(config)
        strategy.remember(remember(selector, draws.remember(rest_of_anchors(rest_of_noise(rest_of(store.memory))))))
        exchange.restore_node_states(store.node_states)
        exchange.go_on_from(store.history)
    else:
        was_begun = folder.has_settings
        for note in tried.notes:
            log.warning("%s", note)
        folder.write_settings(config)  # first: a folder with a state can then always be resumed
        state = exchange.ask(initial_state)
        check_parcels(strategy, state, personal=config.training.personal)
        check_arrays(config, strategy, state)
        check_attack_parcels(config, list(strategy.answers(state)))
        store.begin(state)
        if was_begun:
            log.warning("%s: no round was stored in this folder: the run begins from nothing", folder.path)
    if tried.why_not_stacked:
        log.warning(
            "training.stack = %d: nodes are trained one by one: %s", config.training.stack, tried.why_not_stacked
        )
    folder.write_spec(traits.spec)
    if tried.dealt is not None:
        write_dealt(folder.path, tried.dealt)
    return store, tuple(filter(None, (*tried.notes, secure_notice(config), expected(config, store.state))))


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


def has_private_learner(exchange: Exchange) -> bool:
    """Return whether nodes keep their examples private, as model or learner says.

    On a network a learner may be known to the nodes alone: then the server does not know.
    """
    try:
        return exchange.ask(CLIENT_ABOUT, NodeTraits).is_private
    except SettingError:
        if exchange.is_virtual:
            raise
        return False


def _check_rounds(config: RunConfig, store: RunStore, folder: RunFolder) -> None:
    """Refuse to end a run earlier than it has come."""
    committed = len(store.history.rounds)
    if config.rounds.total < committed:
        raise SettingError(
            "rounds.total", config.rounds.total,
            f"the run in {folder.path} has {committed} rounds: ask for more of them, or leave it out",
        )  # fmt: skip


def with_columns(of_model: Metrics, added: tuple[Metric, ...], *, on_nodes: bool, kinds: Sequence[str] = ()) -> Metrics:
    """Return what is measured in a run: what strategy and devices add, and how the headline is spread over nodes.

    Parameters
    ----------
    on_nodes, kinds
        Whether nodes measure on examples of their own, and what they measure beside their model.
    """
    spread = columns_on_nodes(of_model.headline, kinds) if on_nodes and of_model.headline else ()
    metrics = replace(of_model, reported=(*of_model.reported, *added, *spread))
    if taken := [name for name in metrics.columns if name in {*COLUMNS, *OF_EVENTS}]:
        raise UsageError(f"metric {taken[0]!r}: every round has a column of this name: give the metric another one")
    return metrics


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
def _summarized(run: ServerRun, folder: RunFolder) -> Iterator[None]:
    """Write the summary of what is run in the block, however it ends."""
    status, reason = "failed", ""
    try:
        yield
        status = "completed"
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    except SystemExit as error:
        is_stopped = not (run.exchange.is_virtual or error.code)  # on a network: Flower's way to end by SIGTERM
        status, reason = ("interrupted", "") if is_stopped else (status, str(error))
        raise
    except BaseException as error:
        reason = str(error) or type(error).__name__
        raise
    finally:
        write_summary(folder, run, status=status, reason=reason)
        run.events.write("ended", status=status, reason=reason)
