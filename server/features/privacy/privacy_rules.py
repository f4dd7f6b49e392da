"""What a run that protects nodes cannot have: all that would leave without noise, or that no account covers."""

from __future__ import annotations

from fedlearn.aggregation.steps import steps_of
from fedlearn.config.baselines import NONE
from fedlearn.config.schema import DP_SGD
from fedlearn.core.state import UpdateKind
from fedlearn.models import model_spec
from server.rules import SUM_ALONE, Asked, Rule, within
from strategies.base import AVERAGE


def _keep_ratio(asked: Asked) -> str:
    compression = asked.config.compression
    return compression.codec.partition(":")[2] or f"{compression.keep_ratio:g}"


def _protects_records(asked: Asked) -> bool:
    config = asked.config
    return config.training.learner == DP_SGD if config.nodes_add_noise else asked.traits.is_private


def _leaves_no_cohort(asked: Asked) -> bool:
    config = asked.config
    return config.separates_nodes and config.privacy.separation * config.largest_cohort > config.clients


def _reads_reports(asked: Asked) -> bool:
    strategy = asked.strategy
    reads_more = strategy.accumulator != AVERAGE or strategy.reads_reports or strategy.reads_all_metrics
    return reads_more and not strategy.clips


OF_NODES = within(
    "with privacy.protects = 'nodes' ",
    Rule(
        "model.name", lambda asked: asked.traits.update_kind is not UpdateKind.DENSE and not asked.strategy.clips,
        "changes are clipped, and this model has none", "use a torch module",
    ),
    Rule(
        "model.name", lambda asked: model_spec(asked.config.model.name).is_private,
        "the model protects records already", "leave privacy.protects out",
    ),
    Rule(
        "training.learner", _protects_records,
        "the learner protects records already", "leave privacy.protects out",
    ),
    Rule(
        "strategy.weighting", lambda asked: asked.config.strategy.weighting != "uniform",
        "a weight by examples would make one client's share larger", "use 'uniform'",
    ),
    Rule(
        "strategy.name", lambda asked: asked.strategy.learner and not asked.strategy.clips,
        "what its clients send beside the state has no noise", "use 'fedavg'",
    ),
    Rule(
        "privacy.trust", lambda asked: asked.strategy.clips and asked.config.nodes_add_noise,
        "clients add no noise to what they send with strategy {config.strategy.name!r}", "use 'central'",
    ),
    Rule(
        "privacy.clip_quantile", lambda asked: asked.strategy.clips and asked.config.adapts_clip,
        "strategy {config.strategy.name!r} clips in steps of a fixed norm", "use 0",
    ),
    Rule(
        "privacy.separation", _leaves_no_cohort,
        "{config.largest_cohort} of {config.clients} clients a round: while others wait no cohort is left",
        "use at most {clients_by_cohort}, or a smaller rounds.cohort",
        given={"clients_by_cohort": lambda asked: asked.config.clients // asked.config.largest_cohort},
    ),
    Rule(
        "privacy.clip_quantile", lambda asked: asked.config.adapts_clip and asked.config.separates_nodes,
        "noise takes away earlier noise of the same clipping norm alone", "use 0",
    ),
    Rule(
        "rounds.selector",
        lambda asked: not (asked.config.rounds.selector == "uniform" or asked.config.samples_poisson),
        "others go by what clients report", "use 'uniform', or 'poisson' in a simulation",
    ),
    Rule(
        "rounds.schedule", lambda asked: asked.config.rounds.schedule != "synchronous",
        "a client may be in one sum of a round alone", "use 'synchronous'",
    ),
    Rule(
        "rounds.store_every", lambda asked: asked.config.rounds.store_every > 1,
        "a round that is run again after a kill would be released twice", "use 1",
    ),
    Rule(
        "evaluation.where", lambda asked: asked.config.evaluation.where == "nodes",
        "what clients measure has no noise", "use 'server' or 'none'",
    ),
    Rule(
        "evaluation.nodes", lambda asked: asked.config.evaluation.nodes > 0,
        "what clients measure has no noise", "use 0",
    ),
    Rule(
        "training.partial", lambda asked: asked.config.training.partial,
        "how much work a client has done has no noise", "use false",
    ),
    Rule(
        "training.baseline", lambda asked: asked.config.training.baseline != NONE,
        "a baseline has no sum of clients", "leave it out",
    ),
    where=lambda asked: asked.config.protects_nodes,
)  # fmt: skip

OF_A_POPULATION = within(
    "with privacy.population ",
    Rule(
        "privacy.population", lambda asked: asked.config.privacy.population > 0 and not asked.is_virtual,
        "real clients would get noise that does not protect them", "it is for simulations, leave it out",
    ),
    Rule(
        "privacy.population", lambda asked: 0 < asked.config.privacy.population < asked.config.clients,
        "these {config.clients} clients are to be some of the population", "use at least as many",
    ),
    Rule(
        "privacy.population_cohort",
        lambda asked: asked.config.privacy.population_cohort > asked.config.privacy.population,
        "a round has no more clients than there are", "use fewer",
    ),
    Rule(
        "privacy.separation", lambda asked: asked.config.privacy.population > 0 and asked.config.separates_nodes,
        "these few clients cannot wait as those of a population", "use 1",
    ),
    Rule(
        "privacy.bands", lambda asked: asked.config.privacy.bands > 0 and not asked.config.separates_nodes,
        "without privacy.separation no noise is correlated", "leave it at 0, or give one",
    ),
    where=lambda asked: asked.config.protects_nodes,
)  # fmt: skip

CENTRAL = within(
    "with privacy.trust = 'central' ",
    Rule(
        "compression.codec", lambda asked: asked.config.compression.codec.partition(":")[0] == "drop",
        "no proof bounds what it does to a clipped change; dropping to {keep_ratio} would cost {some_more:.2f} times "
        "the noise of the mean", "use 'identity'",
        given={"keep_ratio": _keep_ratio, "some_more": lambda asked: float(_keep_ratio(asked)) ** -0.5},
    ),
    Rule(
        "compression.codec", lambda asked: asked.config.compression.codec != "identity",
        "no proof bounds what it does to a clipped change", "use 'identity'",
    ),
    Rule(
        "compression.send", lambda asked: asked.config.sends != "update" and not asked.strategy.clips,
        "clients clip and send their change", "use 'update'",
    ),
    Rule(
        "strategy.name", _reads_reports,
        "strategy {value!r} reads each report", "use {one_that_needs_a_sum_alone}",
        given=SUM_ALONE,
    ),
    Rule(
        "strategy.steps", lambda asked: steps_of(asked.config.strategy.steps) or asked.strategy.steps,
        "a step may lengthen what was clipped", "use none",
    ),
    Rule(
        "secure.sums", lambda asked: asked.config.is_secure,
        "the server adds the noise to the sum", "use 'off', or privacy.trust = 'distributed'",
    ),
    Rule(
        "privacy.participations", lambda asked: asked.config.privacy.participations > 0,
        "the server's account counts rounds, whoever takes part", "leave it out",
    ),
    where=lambda asked: asked.config.server_adds_noise,
)  # fmt: skip

NOISE_OF_NODES = (  # behind those of one trust alone
    Rule(
        "privacy.public_sizes", lambda asked: asked.config.privacy.public_sizes,
        "no client tells its number of records", "use false",
    ),
    Rule(
        "privacy.separation", lambda asked: asked.config.separates_nodes,
        "only noise that the server adds is correlated", "use 1",
    ),
    Rule(
        "privacy.clip_quantile", lambda asked: asked.config.adapts_clip,
        "whether a change is within the clipping norm has no noise of a client", "use 0",
    ),
    Rule(
        "privacy.population", lambda asked: asked.config.privacy.population > 0,
        "each client's noise is that of its own promise", "leave it out",
    ),
)  # fmt: skip

LOCAL = within(
    "with privacy.trust = 'local' ",
    Rule(
        "secure.sums", lambda asked: asked.config.is_secure,
        "each report is private by itself", "use 'off', or privacy.trust = 'distributed', which takes less noise",
    ),
    *NOISE_OF_NODES,
    where=lambda asked: asked.config.nodes_add_noise and asked.config.privacy.trust == "local",
)  # fmt: skip

DISTRIBUTED = within(
    "with privacy.trust = 'distributed' ",
    Rule(
        "secure.sums", lambda asked: not asked.config.is_secure,
        "a share of noise hides nothing by itself",
        "use 'masked', or 'unmasked' for a study with seeded noise",
    ),
    Rule(
        "secure.weights", lambda asked: asked.config.secure.weights != "uniform",
        "a weight by examples would make one client's share larger", "use 'uniform'",
    ),
    Rule(
        "client.mods", lambda asked: asked.config.client.mods,
        "a mod would find whole numbers with noise in place of the state", "use none",
    ),
    *NOISE_OF_NODES,
    where=lambda asked: asked.config.nodes_add_noise and asked.config.privacy.trust == "distributed",
)  # fmt: skip

RULES = (*OF_NODES, *OF_A_POPULATION, *CENTRAL, *LOCAL, *DISTRIBUTED)
"""In the order in which they are asked."""
