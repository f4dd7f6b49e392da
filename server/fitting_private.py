"""Settings that do not go with private learners or protected nodes, refused before round 1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedlearn.aggregation.steps import steps_of
from fedlearn.config import RunConfig
from fedlearn.config.baselines import NONE
from fedlearn.config.schema import DP_SGD
from fedlearn.core.errors import SettingError
from fedlearn.core.state import UpdateKind
from fedlearn.models import model_spec
from fedlearn.models.loaded import Traits
from server.secure import AVERAGE
from server.selectors import POISSON, SELECTORS
from strategies.base import RoundStrategy

BATCHES = "training.clip_norm clips batches, and bounds no node: privacy.clip does"
Want = tuple[str, object, bool, str]


def check_private(
    config: RunConfig, traits: Traits, strategy: RoundStrategy[Any], *, is_virtual: bool
) -> tuple[Traits, str]:
    """Refuse what private nodes never say, and what no account of clipped and noised sums covers.

    Returns
    -------
    tuple of Traits and str
        The traits, without what nodes would measure where they are protected; a note on what is likely not meant.
    """
    if config.rounds.selector == POISSON:
        _check(_poisson(config, is_virtual=is_virtual), "with rounds.selector = 'poisson' ")
    _check(_losses(config, traits), "")
    if not config.protects_nodes:
        return traits, ""
    _check(_wants(config, traits, strategy), "with privacy.protects = 'nodes' ")
    _check(_study(config, is_virtual=is_virtual), "with privacy.population ")
    of_trust = {"central": _wants_of_central, "local": _wants_of_local, "distributed": _wants_of_distributed}
    _check(of_trust[config.privacy.trust](config, strategy), f"with privacy.trust = {config.privacy.trust!r} ")
    if config.nodes_add_noise:
        _check(_of_the_server(config), f"with privacy.trust = {config.privacy.trust!r} ")
    reported = tuple(metric for metric in traits.metrics.reported if config.nodes_add_noise and metric.is_privacy_loss)
    measures_nothing = replace(traits, metrics=replace(traits.metrics, reported=reported))
    return measures_nothing, BATCHES if config.training.clip_norm else ""


def _check(wants: list[Want], before: str) -> None:
    for setting, value, is_wrong, why in wants:
        if is_wrong:
            raise SettingError(setting, value, before + why)


def _poisson(config: RunConfig, *, is_virtual: bool) -> list[Want]:
    rounds = config.rounds
    return [
        ("rounds.selector", rounds.selector, not is_virtual,
         "every node must be ready in every round, which is so in simulations alone: use 'uniform'"),
        ("devices.name", config.devices.name, bool(config.devices.name),
         "every node must be ready in every round: leave it empty"),
        ("rounds.over_selection", rounds.over_selection, rounds.over_selection > 1,
         "all nodes that are drawn are waited for: use 1"),
        ("rounds.schedule", rounds.schedule, rounds.schedule != "synchronous",
         "rounds are drawn one by one: use 'synchronous'"),
        ("privacy.separation", config.privacy.separation, config.separates_nodes,
         "nodes are drawn whether or not they have just taken part: use 'uniform', or a separation of 1"),
        ("privacy.trust", config.privacy.trust, config.privacy.trust == "distributed",
         "a draw may be smaller than the sum that the shares of noise are made for: use 'local'"),
    ]  # fmt: skip


def _study(config: RunConfig, *, is_virtual: bool) -> list[Want]:
    privacy = config.privacy
    nodes, cohort, is_study = privacy.population, privacy.population_cohort, privacy.population > 0
    return [
        ("privacy.population", nodes, is_study and not is_virtual,
         "real nodes would get noise that does not protect them: it is for simulations, leave it out"),
        ("privacy.population", nodes, 0 < nodes < config.clients,
         f"these {config.clients} nodes are to be some of the population: use at least as many"),
        ("privacy.population_cohort", cohort, cohort > nodes, "a round has no more nodes than there are: use fewer"),
        ("privacy.separation", privacy.separation, is_study and config.separates_nodes,
         "these few nodes cannot wait as those of a population: use 1"),
    ]  # fmt: skip


def _losses(config: RunConfig, traits: Traits) -> list[Want]:
    name = config.rounds.selector
    return [
        ("rounds.selector", name, traits.is_private and SELECTORS.load(name).goes_by_loss,
         f"selector {name!r} goes by the losses of nodes, and nodes whose model or learner is private report none: use "
         "'uniform'"),
    ]  # fmt: skip


def _wants(config: RunConfig, traits: Traits, strategy: RoundStrategy[Any]) -> list[Want]:
    """Return (setting, value, whether it is wrong, why) of all that would leave without noise, or lengthen a change."""
    rounds = config.rounds
    return [
        ("model.name", config.model.name, traits.update_kind is not UpdateKind.DENSE,
         "changes are clipped, and this model has none: use a torch module"),
        ("model.name", config.model.name, model_spec(config.model.name).is_private,
         "the model protects records already: leave privacy.protects out"),
        ("training.learner", config.training.learner,
         config.training.learner == DP_SGD if config.nodes_add_noise else traits.is_private,
         "the learner protects records already: leave privacy.protects out"),
        ("strategy.weighting", config.strategy.weighting, config.strategy.weighting != "uniform",
         "a weight by examples would make one node's share larger: use 'uniform'"),
        ("strategy.name", config.strategy.name, bool(strategy.learner),
         "what its nodes send beside the state has no noise: use 'fedavg'"),
        ("privacy.separation", config.privacy.separation,
         config.separates_nodes and config.privacy.separation * config.largest_cohort > config.clients,
         f"{config.largest_cohort} of {config.clients} nodes a round: while others wait no cohort is left: use at most "
         f"{config.clients // config.largest_cohort}, or a smaller rounds.cohort"),
        ("privacy.clip_quantile", config.privacy.clip_quantile, config.adapts_clip and config.separates_nodes,
         "noise takes away earlier noise of the same clipping norm alone: use 0"),
        ("rounds.selector", rounds.selector, rounds.selector not in ("uniform", POISSON),
         "others go by what nodes report: use 'uniform', or 'poisson' in a simulation"),
        ("rounds.schedule", rounds.schedule, rounds.schedule != "synchronous",
         "a node may be in one sum of a round alone: use 'synchronous'"),
        ("rounds.store_every", rounds.store_every, rounds.store_every > 1,
         "a round that is run again after a kill would be released twice: use 1"),
        ("evaluation.where", config.evaluation.where, config.evaluation.where == "nodes",
         "what nodes measure has no noise: use 'server' or 'none'"),
        ("evaluation.nodes", config.evaluation.nodes, config.evaluation.nodes > 0,
         "what nodes measure has no noise: use 0"),
        ("training.partial", config.training.partial, config.training.partial,
         "how much work a node has done has no noise: use false"),
        ("training.baseline", config.training.baseline, config.training.baseline != NONE,
         "a baseline has no sum of nodes: leave it out"),
    ]  # fmt: skip


def _wants_of_central(config: RunConfig, strategy: RoundStrategy[Any]) -> list[Want]:
    """Return what would change the sum on which the server's noise is, or the account of its rounds."""
    name = config.strategy.name
    return [
        ("compression.codec", config.compression.codec, config.compression.codec != "identity", _cost(config)),
        ("compression.send", config.compression.send, config.sends != "update",
         "nodes clip and send their change: use 'update'"),
        ("strategy.name", name, strategy.accumulator != AVERAGE or strategy.reads_reports or strategy.reads_all_metrics,
         f"strategy {name!r} reads each report: use 'fedavg', 'fedavgm' or 'fedadam'"),
        ("strategy.steps", config.strategy.steps, bool(steps_of(config.strategy.steps) or strategy.steps),
         "a step may lengthen what was clipped: use none"),
        ("secure.sums", config.secure.sums, config.is_secure,
         "the server adds the noise to the sum: use 'off', or privacy.trust = 'distributed'"),
        ("privacy.participations", config.privacy.participations, config.privacy.participations > 0,
         "the server's account counts rounds, whoever takes part: leave it out"),
    ]  # fmt: skip


def _of_the_server(config: RunConfig) -> list[Want]:
    """Return what the server's noise can have, and noise of nodes cannot."""
    privacy = config.privacy
    return [
        ("privacy.separation", privacy.separation, config.separates_nodes,
         "only noise that the server adds is correlated: use 1"),
        ("privacy.clip_quantile", privacy.clip_quantile, config.adapts_clip,
         "whether a change is within the clipping norm has no noise of a node: use 0"),
        ("privacy.population", privacy.population, privacy.population > 0,
         "each node's noise is that of its own promise: leave it out"),
    ]  # fmt: skip


def _wants_of_local(config: RunConfig, strategy: RoundStrategy[Any]) -> list[Want]:
    """Return what a report with noise of its own cannot have; all that comes after the noise is post-processing."""
    return [
        ("secure.sums", config.secure.sums, config.is_secure,
         "each report is private by itself: use 'off', or privacy.trust = 'distributed', which takes less noise"),
        ("privacy.public_sizes", config.privacy.public_sizes, config.privacy.public_sizes,
         "no node tells its number of records: use false"),
    ]  # fmt: skip


def _wants_of_distributed(config: RunConfig, strategy: RoundStrategy[Any]) -> list[Want]:
    """Return what a sum with shares of noise cannot have, beside what no secure sum can."""
    return [
        ("secure.sums", config.secure.sums, not config.is_secure,
         "a share of noise hides nothing by itself: use 'masked', or 'unmasked' for a study with seeded noise"),
        ("secure.weights", config.secure.weights, config.secure.weights != "uniform",
         "a weight by examples would make one node's share larger: use 'uniform'"),
        ("client.mods", config.client.mods, bool(config.client.mods),
         "a mod would find whole numbers with noise in place of the state: use none"),
        ("privacy.public_sizes", config.privacy.public_sizes, config.privacy.public_sizes,
         "no node tells its number of records: use false"),
    ]  # fmt: skip


def _cost(config: RunConfig) -> str:
    more = ""
    if config.compression.codec.partition(":")[0] == "drop":
        keep = config.compression.codec.partition(":")[2] or f"{config.compression.keep_ratio:g}"
        more = f"; dropping to {keep} would cost {float(keep) ** -0.5:.2f} times the noise of the mean"
    return f"no proof bounds what it does to a clipped change{more}: use 'identity'"
