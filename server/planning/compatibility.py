"""Whether model, codec, strategy and settings fit together; asked before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator
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
from fedlearn.plugins.registry import load_reference
from fedlearn.plugins.tables import ALGORITHMS, FEATURES
from server.exchange.exchange import Exchange
from server.rules import Asked, Rule, within
from server.selectors import SELECTORS, Selector
from strategies import RoundStrategy, named

PRODUCES = {
    UpdateKind.DENSE: "dense updates",
    UpdateKind.MASKED: "masked updates",
    UpdateKind.ENSEMBLE: "ensembles",
    UpdateKind.SUMS: "sums",
}
OF_SELECTORS = (
    *within(
        "with rounds.selector = 'poisson' ",
        Rule(
            "rounds.selector", lambda asked: not asked.is_virtual,
            "every client must be ready in every round, which is so in simulations alone", "use 'uniform'",
        ),
        Rule(
            "devices.name", lambda asked: asked.config.devices.name,
            "every client must be ready in every round", "leave it empty",
        ),
        Rule(
            "rounds.over_selection", lambda asked: asked.config.rounds.over_selection > 1,
            "all clients that are drawn are waited for", "use 1",
        ),
        Rule(
            "rounds.schedule", lambda asked: asked.config.rounds.schedule != "synchronous",
            "rounds are drawn one by one", "use 'synchronous'",
        ),
        Rule(
            "privacy.separation", lambda asked: asked.config.separates_nodes,
            "clients are drawn whether or not they have just taken part", "use 'uniform', or a separation of 1",
        ),
        Rule(
            "privacy.trust", lambda asked: asked.config.privacy.trust == "distributed",
            "a draw may be smaller than the sum that the shares of noise are made for", "use 'local'",
        ),
        where=lambda asked: asked.config.samples_poisson,
    ),
    Rule(
        "rounds.selector",
        lambda asked: asked.traits.is_private and SELECTORS.load(asked.config.rounds.selector).goes_by_loss,
        "selector {value!r} goes by the losses of clients, and clients whose model or learner is private report none",
        "use 'uniform'",
    ),
)  # fmt: skip


def _sends_trees_or_sums(asked: Asked) -> bool:
    return not asked.traits.update_kind.is_averaged


def _trees_or_sums(asked: Asked) -> str:
    return "trees" if asked.traits.update_kind is UpdateKind.ENSEMBLE else "sums"


OF_MODELS = (
    Rule(
        "compression.send",
        lambda asked: _sends_trees_or_sums(asked) and asked.config.compression.send != "weights",
        "the {trees_or_sums} of model {config.model.name!r} have no change", "use 'weights'",
        given={"trees_or_sums": _trees_or_sums},
    ),
    Rule(
        "client.mods", lambda asked: _sends_trees_or_sums(asked) and asked.config.client.mods,
        "mods change weights; model {config.model.name!r} sends {trees_or_sums}", "use none",
        given={"trees_or_sums": _trees_or_sums},
    ),
    Rule(
        "gate.max_norm", lambda asked: _sends_trees_or_sums(asked) and asked.config.gate.max_norm,
        "the {trees_or_sums} of model {config.model.name!r} have bounded values anyway", "use 0",
        given={"trees_or_sums": _trees_or_sums},
    ),
    Rule(
        "evaluation.where", lambda asked: asked.traits.is_private and asked.config.evaluation.where == "nodes",
        "clients would send what they measured on data that model or learner keeps private, and no budget covers that",
        "use 'server' or 'none'",
    ),
)  # fmt: skip


def _has_bare_shares(asked: Asked) -> bool:
    """Return whether nodes send what has a share of noise alone, and nothing hides it."""
    config = asked.config
    has_shares = config.nodes_add_noise or model_spec(config.model.name).sums
    return config.privacy.trust == "distributed" and config.secure.sums != "masked" and has_shares


def _sends_exact_sums(asked: Asked) -> bool:
    row = model_spec(asked.config.model.name)
    return row.sums and not row.is_private and asked.config.secure.sums != "masked"


OF_TRUST = (
    Rule(
        "privacy.trust",
        lambda asked: asked.config.privacy.trust == "central" and not asked.config.protects_nodes,
        "it is for privacy.protects = 'nodes'", "use 'local'",
    ),
    Rule(
        "secure.sums", lambda asked: _sends_exact_sums(asked) and not asked.is_virtual,
        "model {config.model.name!r} asks each node for exact sums, which the server would see", "use 'masked'",
    ),
    Rule(
        "privacy.trust", lambda asked: _has_bare_shares(asked) and not asked.is_virtual,
        "what one node sends has a share of the noise only, and nothing hides it",
        "use secure.sums = 'masked', or 'local'",
    ),
    Rule(
        "privacy.noise", lambda asked: _has_bare_shares(asked) and asked.config.privacy.noise != "seeded",
        "shares of noise protect nobody where the server sees what each node sends",
        "use secure.sums = 'masked', or 'seeded' for a study",
    ),
)  # fmt: skip


def rules() -> Iterator[Rule]:
    """Yield all rules of what goes with what, in the order in which they are asked; a run breaks the first."""
    yield from (*OF_MODELS, *OF_TRUST, *OF_SELECTORS)
    for name in FEATURES.values():
        yield from load_reference(name).rules


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
    for setting, value in ALGORITHMS.get(config.strategy.name, {}).items():
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
