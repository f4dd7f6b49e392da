"""What no run can have, with whatever features: rows of models, of trust and of selectors; and all rows of a run."""

from __future__ import annotations

from collections.abc import Iterator

from fedlearn.core.state import UpdateKind
from fedlearn.models import model_spec
from fedlearn.plugins.registry import load_reference
from fedlearn.plugins.tables import FEATURES
from server.rules import Asked, Rule, within
from server.selectors import SELECTORS

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
            "rounds.without", lambda asked: asked.config.rounds.without,
            "every client must be ready in every round", "use rounds.selector = 'ranked'",
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
        "rounds.without", lambda asked: any(each >= asked.config.clients for each in asked.config.absent),
        "the run has the clients from 0 to {last}", "name clients of the run",
        given={"last": lambda asked: asked.config.clients - 1},
    ),
    Rule(
        "rounds.without", lambda asked: len(asked.config.absent) >= asked.config.clients,
        "no client is left", "name fewer",
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
        "model {config.model.name!r} asks each client for exact sums, which the server would see", "use 'masked'",
    ),
    Rule(
        "privacy.trust", lambda asked: _has_bare_shares(asked) and not asked.is_virtual,
        "what one client sends has a share of the noise only, and nothing hides it",
        "use secure.sums = 'masked', or 'local'",
    ),
    Rule(
        "privacy.noise", lambda asked: _has_bare_shares(asked) and asked.config.privacy.noise != "seeded",
        "shares of noise protect nobody where the server sees what each client sends",
        "use secure.sums = 'masked', or 'seeded' for a study",
    ),
)  # fmt: skip


OF_PLANS = (*OF_MODELS, *OF_TRUST, *OF_SELECTORS)
"""Rules of models, trust and selectors, in the order in which a run asks them; rules of features follow."""


def rules() -> Iterator[Rule]:
    """Yield all rules of what goes with what, in the order in which they are asked; a run breaks the first."""
    yield from OF_PLANS
    for name in FEATURES.values():
        yield from load_reference(name).rules
