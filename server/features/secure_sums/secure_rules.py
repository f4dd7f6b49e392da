"""What a run with secure sums cannot have: all that asks for more than a sum of reports."""

from __future__ import annotations

from typing import Any

from fedlearn.aggregation.steps import steps_of
from fedlearn.config import RunConfig
from fedlearn.core.cohort import At
from fedlearn.core.errors import SettingError
from fedlearn.core.state import UpdateKind
from fedlearn.secure.summands import dropping
from server.features.secure_sums.groups_of_cohort import check_groups, coverage_of, groups_in, level_of, senders_of
from server.rules import SUM_ALONE, Asked, Rule, within
from strategies.base import AVERAGE, RoundStrategy
from strategies.fedavg import SPATIAL
from strategies.slices_of_run import slices_of


def _is_sum(asked: Asked) -> bool:
    return asked.traits.update_kind is UpdateKind.SUMS


def _needs_reports(asked: Asked) -> bool:
    strategy = asked.strategy
    needs = strategy.accumulator != AVERAGE or strategy.reads_all_metrics
    return not _is_sum(asked) and not strategy.takes_groups and needs


RULES = within(
    "with secure sums ",
    Rule(
        "secure.sums", lambda asked: asked.config.secure.sums == "unmasked" and not asked.is_virtual,
        "without masks a server sees each report", "use 'masked'; 'unmasked' is for simulations",
    ),
    Rule(
        "model.name", lambda asked: asked.traits.update_kind not in (UpdateKind.DENSE, UpdateKind.SUMS),
        "changes or sums are added up, and this model has neither", "use a torch module, or 'dp-boosting'",
    ),
    Rule(
        "model.name",
        lambda asked: asked.traits.is_private and not _is_sum(asked) and not asked.config.nodes_add_noise,
        "clients that pay for a change have no place yet", "use secure.sums = 'off'",
    ),
    Rule(
        "secure.group_size",
        lambda asked: (_is_sum(asked) or asked.config.nodes_add_noise) and asked.config.secure.group_size > 0,
        "the noise of these sums is that of one sum, and each group would need as much", "use 0",
    ),
    Rule(
        "privacy.public_sizes", lambda asked: _is_sum(asked) and asked.config.privacy.public_sizes,
        "no client tells its number of records", "use false",
    ),
    Rule(
        "compression.codec",
        lambda asked: asked.config.compression.codec != "identity" and not asked.config.secure.group_size,
        "all clients of a sum send the same entries", "use 'identity', or 'drop' with secure.group_size",
    ),
    Rule(
        "strategy.options.decoder", lambda asked: getattr(asked.strategy, "decoder", "") == SPATIAL,
        "all clients of a group send the same entries, and it takes them for independent", "use 'survivors'",
    ),
    Rule(
        "rounds.schedule", lambda asked: asked.config.rounds.schedule != "synchronous",
        "all clients of a sum must be there together", "use 'synchronous'",
    ),
    Rule(
        "rounds.store_every", lambda asked: asked.config.rounds.store_every > 1 and not asked.is_virtual,
        "a resume must not go back behind a sum that clients were asked for", "use 1",
    ),
    Rule(
        "rounds.selector", lambda asked: asked.config.rounds.selector != "uniform",
        "the server has no loss of a client to go by", "use 'uniform'",
    ),
    Rule(
        "strategy.name", _needs_reports,
        "strategy {value!r} would need each report", "use {one_that_needs_a_sum_alone}",
        given=SUM_ALONE,
    ),
    Rule(
        "strategy.name", lambda asked: asked.strategy.takes_groups and not asked.config.secure.group_size,
        "strategy {value!r} compares reports, and one sum leaves nothing to compare",
        "use secure.group_size, so that it gets the mean of each group, or 'fedavg'",
    ),
    Rule(
        "strategy.name", lambda asked: asked.strategy.reads_reports,
        "strategy {value!r} needs more than the sum of the states", "use {one_that_needs_a_sum_alone}",
        given=SUM_ALONE,
    ),
    Rule(
        "strategy.steps", lambda asked: steps_of(asked.config.strategy.steps) or asked.strategy.steps,
        "the server has no report of a client to change", "use none; secure.clip bounds each entry",
    ),
    Rule(
        "gate.max_norm", lambda asked: asked.config.gate.max_norm > 0,
        "the server has no norm of a client to limit", "use 0; secure.clip bounds each entry",
    ),
    Rule(
        "evaluation.where", lambda asked: asked.config.evaluation.where == "nodes",
        "no client says what it has measured alone", "use 'server' or 'none'",
    ),
    Rule(
        "evaluation.nodes", lambda asked: asked.config.evaluation.nodes > 0,
        "no client says what it has measured alone", "use 0",
    ),
    where=lambda asked: asked.config.is_secure,
)  # fmt: skip


def check_graph(config: RunConfig, strategy: RoundStrategy[Any]) -> None:
    """Refuse cohorts and groups for which no graph of masks is secure, or that send too few of the entries."""
    dropping(config)
    if config.sums_groups and strategy.takes_groups:
        check_groups(config, strategy)
    for nodes in {config.fewest_ready, config.largest_cohort}:
        if nodes < config.secure.group_size:
            raise SettingError(
                "secure.group_size", config.secure.group_size,
                f"a cohort of {nodes} clients has no group of so many: use smaller groups, or a larger rounds.cohort",
            )  # fmt: skip
        for size in {len(group) for group in groups_in(config, range(nodes), At(1, 1))}:
            level_of(config, size)
    if config.secure.group_size and slices_of(config) is not None and config.largest_cohort == config.clients:
        grouped = sum(map(len, groups_in(config, range(config.clients), At(1, 1))))
        if grouped < config.fewest_reports:
            raise SettingError(
                "secure.group_size", config.secure.group_size,
                f"{grouped} of {config.clients} clients fill groups with slices of one ratio, and a round needs "
                f"{config.fewest_reports}: use smaller groups, or fewer ratios",
            )  # fmt: skip
    if config.secure.coverage > (expected := coverage_of(config, senders_of(strategy))):
        raise SettingError(
            "secure.coverage", config.secure.coverage,
            f"{_senders_in_words(strategy)} of a full cohort are expected to send {expected:.3f} of the entries: use a "
            "larger keep ratio, smaller groups, a larger rounds.cohort, or a lower coverage",
        )  # fmt: skip


def _senders_in_words(strategy: RoundStrategy[Any]) -> str:
    senders = senders_of(strategy)
    return f"{senders} or more of the groups" if senders > 1 else "the groups"
