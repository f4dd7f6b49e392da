"""Opening a run: its nodes are reached, it is planned, and begun, or taken up again where it is stored."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid

from fedlearn.config import RunConfig, from_flower, to_flower
from fedlearn.core.client_facts import NodeTrial
from fedlearn.core.errors import RunFailed, SettingError
from fedlearn.data.cache import checked
from fedlearn.models.loaded import initial_state, trial, with_found_data
from fedlearn.plugins.tables import CLIENT_TRIAL
from fedlearn.runs.arithmetic import changes_since, refuse
from fedlearn.runs.checkpoint import RunStore
from fedlearn.runs.code_identity import checked_code, said_of_accepted
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.label_counts import write_dealt
from fedlearn.runs.log import EventLog
from fedlearn.runs.settings_of_resume import kept_settings
from server.exchange.exchange import Exchange
from server.feature import begin
from server.feature import rest_of as rest_of_features
from server.planning.compatibility import check_devices, check_parcels
from server.planning.run_plan import Plan, planned
from server.run import ServerRun
from server.schedules import rest_of
from server.selectors import Selector, load_selector, remember
from server.strategy_rng import Draws
from strategies import RoundStrategy, load_strategy

log = logging.getLogger(__name__)

CHANGES_CONCERNING = "fedlearn.models.concerning_changes:concerning"  # by its name, as it imports torch


def reached(grid: Grid, context: Context) -> tuple[RunConfig, Exchange]:
    """Return the settings with the data that were found, and what reaches the nodes; a simulation has looked before."""
    config = from_flower(context.run_config)
    exchange = Exchange(grid, context.run_config)
    if exchange.is_virtual:
        return config, exchange
    with checked():
        config = with_found_data(config)
    return config, Exchange(grid, to_flower(config))


def selector_of(config: RunConfig, exchange: Exchange) -> Selector:
    """Return the selector of the run; refuse one that goes by times that nodes do not take."""
    selector = load_selector(config)
    check_devices(config, selector, is_virtual=exchange.is_virtual, is_timed=exchange.timed is not None)
    return selector


def run_in(
    folder: RunFolder, config: RunConfig, exchange: Exchange, selector: Selector, events: EventLog
) -> tuple[ServerRun, Plan]:
    """Return the new run, or the one in the folder, all of it checked, and what it will do."""
    code = checked_code(folder.path, config)
    draws = Draws(config, is_virtual=exchange.is_virtual)
    with draws.to_compute(None, "make"):
        strategy = load_strategy(config.strategy)
    plan = planned(config, exchange, strategy)
    store, notes = _begun_or_resumed(plan, exchange, folder, strategy, selector, draws, code)
    run = ServerRun(
        exchange, strategy, store, plan.config,
        events=events, traits=plan.traits, draws=draws, selector=selector,
        notes=(*notes, *plan.notes, *said_of_accepted(folder.path)), features=plan.features,
    )  # fmt: skip
    return run, plan


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
    tried = _trial_of(exchange, deadline=config.rounds.reporting_deadline)
    forgets_nothing = traits.is_private or config.protects_nodes or config.is_secure
    store = RunStore(
        folder.path, plan.columns, kept_settings(config),
        data=plan.fingerprint, code=code, tied=traits.tied, unsent=traits.unsent,
        keep_every=0 if forgets_nothing else config.rounds.keep_every,
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


def _trial_of(exchange: Exchange, *, deadline: float) -> NodeTrial:
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
