"""Whether model, codec, strategy and settings fit together; asked before anything is sent."""

from __future__ import annotations

from functools import partial
from typing import Any

from fedlearn import wire
from fedlearn.aggregation import STATE
from fedlearn.aggregation.steps import load_step, steps_of
from fedlearn.compression import load_codec
from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError
from fedlearn.core.state import State, UpdateKind
from fedlearn.flower.named_mods import load_mods
from fedlearn.models import model_spec
from fedlearn.models.loaded import Traits
from fedlearn.plugins.tables import PRESETS
from server.exchange.exchange import Exchange
from server.selectors import Selector
from strategies import RoundStrategy, named

PRODUCES = {
    UpdateKind.DENSE: "dense updates",
    UpdateKind.MASKED: "masked updates",
    UpdateKind.ENSEMBLE: "ensembles",
    UpdateKind.SUMS: "sums",
}
DOES = {UpdateKind.ENSEMBLE: "unites ensembles", UpdateKind.SUMS: "adds up sums"}


def check_fitting(config: RunConfig, traits: Traits, strategy: RoundStrategy[Any]) -> None:
    """Raise SettingError, with what to take instead, where two parts mean different things by an update."""
    check_invited(config)
    kind, model = traits.update_kind, config.model.name
    codec = load_codec(config.compression)
    if kind not in codec.accepts:
        raise SettingError(
            "compression.codec", config.compression.codec,
            f"it cannot send what model {model!r} produces ({PRODUCES[kind]}): use 'identity'",
        )  # fmt: skip
    if codec.needs_change and config.compression.send != "update":
        raise SettingError(
            "compression.send", config.compression.send,
            f"codec {config.compression.codec!r} wants the change of the weights, as {codec.needs_change!r} is biased "
            "or takes what is not sent for no change: use 'update'",
        )  # fmt: skip
    sent = codec.emits(kind)
    if sent not in strategy.accepts:
        averaged = " or ".join(sorted(str(each) for each in strategy.accepts if each.is_averaged))
        does = f"averages {averaged} updates" if averaged else DOES[min(strategy.accepts)]
        with_codec = "" if sent is kind else f" with codec {config.compression.codec!r}"
        raise SettingError(
            "strategy.name", config.strategy.name,
            f"strategy {config.strategy.name!r} {does}; model {model!r}{with_codec} produces {PRODUCES[sent]}: "
            f"use {named(lambda kind: sent in kind.accepts and kind.sums is traits.sums)}",
        )  # fmt: skip
    strategy.check_sent(sent, config.compression)
    if not (config.sums_groups and strategy.takes_groups):  # it gets the means of groups for reports
        strategy.check_cohort(config.largest_cohort)
    if strategy.sums is not traits.sums:
        does, instead = ("adds up trees", "'forest_union'") if strategy.sums else ("takes the mean of trees", "'relay'")
        is_made_of = "a sum" if traits.sums else "a mean"
        raise SettingError(
            "strategy.name", config.strategy.name,
            f"strategy {config.strategy.name!r} {does}; model {model!r} is {is_made_of}: use {instead}"
            + (", or model 'dp-relay'" if strategy.sums else ""),
        )  # fmt: skip
    for metric in strategy.metrics:
        if metric.is_privacy_loss and not metric.note:
            raise SettingError(
                "strategy.name", config.strategy.name,
                f"its metric {metric.name!r} is a privacy loss and does not say what it counts in: give it a note, as "
                '"spent; add or remove one record; unit: record; trusted server"',
            )  # fmt: skip
    load_mods(config.client.mods)
    _check_learner(config, strategy)
    _check_algorithm(config)
    _check_steps(config, strategy)


def check_parcels(strategy: RoundStrategy[Any], state: State, *, personal: str = "") -> None:
    """Refuse parcels under a name that a message has for something else, or that would tell of personal layers."""
    if personal and (asked := list(strategy.answers(state))):
        raise SettingError(
            "training.personal", personal,
            f"strategy {type(strategy).__name__} asks clients for {', '.join(asked)} beside the state, which a learner "
            "makes of all that it trains, personal layers too: leave it empty, or take another strategy.name",
        )  # fmt: skip
    for name in (*strategy.parcels(state), *strategy.answers(state)):
        if name in {STATE, *wire.RECORDS}:
            raise SettingError(
                "strategy.name", type(strategy).__name__,
                f"it names a parcel {name!r}, which is a message's own record: take another name",
            )  # fmt: skip


def check_devices(config: RunConfig, selector: Selector, *, is_virtual: bool, is_timed: bool) -> None:
    """Refuse to make up devices for nodes that have their own, and to go by times that are none."""
    if is_virtual and not is_timed:
        why = "virtual clients without devices take no time that could be told again: name some by --devices"
        if config.rounds.over_selection > 1:
            raise SettingError("rounds.over_selection", config.rounds.over_selection, why)
        if config.training.partial:
            raise SettingError("training.partial", True, why)
        if selector.goes_by_time:
            raise SettingError("rounds.selector", config.rounds.selector, why)
    if config.training.partial and (not is_virtual or not model_spec(config.model.name).trains_in_steps):
        why = "what a client has time for is known of made-up devices, where models are trained in steps: use false"
        raise SettingError("training.partial", True, why)
    if config.training.partial and config.is_secure:
        why = "each client would get its own limit, but all clients of one secure sum get the same question: use false"
        raise SettingError("training.partial", True, why)
    if config.devices.name and not is_virtual:
        raise SettingError(
            "devices.name",
            config.devices.name,
            "devices are made up in simulations; clients on a network have their own",
        )


def check_schedule(
    make: partial[Any], config: RunConfig, traits: Traits, strategy: RoundStrategy[Any], exchange: Exchange
) -> None:
    """Have a schedule refuse settings that it cannot run."""
    if check := getattr(make.func, "check", None):
        is_timed = exchange.timed is not None
        kind = traits.update_kind
        check(config, make.keywords, strategy, kind, is_virtual=exchange.is_virtual, is_timed=is_timed)


def check_stack(config: RunConfig, *, stacks: bool) -> None:
    """Refuse to train nodes together where no worker has several, or where the clock decides which nodes."""
    count = config.training.stack
    if count > 1 and not stacks:
        why = (
            "clients are trained together by engine.name = 'embedded' and 'inline'; elsewhere each trains alone: use 1"
        )
        raise SettingError("training.stack", count, why)
    if count > 1 and config.rounds.schedule != "synchronous":
        why = f"rounds.schedule = {config.rounds.schedule!r} writes to one client when another has answered: use 1"
        raise SettingError("training.stack", count, why)


def check_invited(config: RunConfig) -> None:
    """Refuse to invite fewer nodes than must be ready: every window would pass in vain."""
    needed = config.fewest_ready
    if 0 < config.rounds.invited < needed:
        raise SettingError(
            "rounds.invited", config.rounds.invited,
            f"{needed} clients must be ready (rounds.minimum_ready of rounds.cohort): invite at least as many, or 0",
        )  # fmt: skip


def _check_learner(config: RunConfig, strategy: RoundStrategy[Any]) -> None:
    if strategy.learner and config.training.learner != strategy.learner:
        raise SettingError(
            "training.learner", config.training.learner,
            f"strategy {config.strategy.name!r} needs clients that learn by {strategy.learner!r}: use that",
        )  # fmt: skip


def _check_algorithm(config: RunConfig) -> None:
    """Refuse an algorithm without what goes with it, as where all settings are given but its own."""
    for setting, value in PRESETS.get(config.strategy.name, {}).items():
        table, _, name = setting.partition(".")
        if (given := getattr(getattr(config, table), name)) in ("", "none"):
            raise SettingError(
                setting, given, f"strategy {config.strategy.name!r} is nothing without it: use {value!r}"
            )


def _check_steps(config: RunConfig, strategy: RoundStrategy[Any]) -> None:
    for spec in (*steps_of(config.strategy.steps), *strategy.steps):
        step = load_step(spec)
        if step.needs_change and config.compression.send != "update":
            raise SettingError(
                "compression.send", config.compression.send,
                f"fold step {spec.reference!r} is for the change of the weights: use 'update'",
            )  # fmt: skip
