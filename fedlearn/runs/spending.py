"""The privacy loss of the nodes' records, by all reports of a run, committed or not."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError
from fedlearn.core.metrics import Metrics
from fedlearn.models import model_spec
from fedlearn.runs.log import EventTail

if TYPE_CHECKING:
    from fedlearn.privacy import PrivacySpent

LOCAL, DISTRIBUTED = "local noise", "distributed noise"
UNSEEN = "distributed noise: as private as it says only under secure sums, which this run has not"
SUMMED = "distributed noise: as private as it says where nobody sees less than a sum of {fewest} reports{colluders}"
MEASURED = "test rows are measured exactly, and no epsilon counts that"
UNMEASURED = (
    "nothing is evaluated: no budget pays for exact measures of private test rows; the table's file may name public "
    'ones, as test = "public.csv"'
)
UNCOUNTED = "what the state before round 1 (model.initial) has cost the records that it was made of, no epsilon counts"
CAME = ("reported", "refused", "late-report-refused")  # a node has published something

log = logging.getLogger(__name__)


def promised(config: RunConfig) -> PrivacySpent:
    """Return the most that a record of any node, or a node, loses in a run."""
    from fedlearn.privacy import PrivacyUnit, largest_loss

    loss = largest_loss(config.privacy.epsilon, config.privacy)
    if config.nodes_add_noise:
        return replace(loss, delta=config.privacy.delta, unit=PrivacyUnit.NODE)
    return replace(loss, delta=config.privacy.delta) if config.protects_records else loss


def trust_of(config: RunConfig) -> str:
    """Return whose noise protects a record, in words: each node's own, unless its sums have a share of it."""
    has_shares = config.nodes_add_noise or model_spec(config.model.name).sums
    is_distributed = config.privacy.trust == "distributed" and has_shares
    return DISTRIBUTED if is_distributed else LOCAL


def counted_in(config: RunConfig) -> str:
    """Return the meaning of an epsilon of this run: between which data sets, of whose data, with whose noise."""
    most = promised(config)
    counted = f"{neighbors_of(most)}; unit: {most.unit.word}; {trust_of(config)}"
    more = assumed(config)
    return f"{counted}; delta {more['delta']:g}; {more['sampling']}" if more else counted


def neighbors_of(loss: PrivacySpent) -> str:
    """Return the relation of the data sets between which a loss is bounded, in its own unit."""
    return loss.relation.value.replace("record", loss.unit.word)


def assumed(config: RunConfig) -> dict[str, Any]:
    """Return what else an epsilon of this run holds by: delta, and the sampling in words; nothing of pure epsilon."""
    if config.nodes_add_noise:
        from fedlearn.privacy.local_dp import OwnNoise

        return {"delta": config.privacy.delta, "sampling": OwnNoise.of(config).guarantee.sampling}
    if not config.protects_records:
        return {}
    from fedlearn.privacy.record_costs import RecordPlan

    return {"delta": config.privacy.delta, "sampling": RecordPlan.of(config).guarantee.sampling}


def noise_of_nodes(config: RunConfig) -> dict[str, Any]:
    """Return the noise of nodes that add it themselves, and in words what it protects, and against whom."""
    from fedlearn.privacy.local_dp import OwnNoise

    noise = OwnNoise.of(config)
    whom = "everybody who sees what it sends, the server among them"
    if noise.shares:
        beside = f" and {config.secure.colluders} clients that tell it theirs" if config.secure.colluders else ""
        whom = f"everybody who sees no less than a sum of {config.fewest_reports} reports{beside}"
    return {
        "noise_multiplier": noise.multiplier,
        "clip": noise.clip,
        "protects": (
            f"what one client has learned of all its records, against {whom}: {noise.guarantee}; that it took part is "
            "not hidden"
        ),
    }


def check_records(config: RunConfig) -> None:
    """Refuse to say that records are protected where nothing does it, or by noise that costs more than the budget.

    The same of noise that nodes add to protect themselves whole.
    """
    if config.nodes_add_noise:
        from fedlearn.privacy.local_dp import OwnNoise

        OwnNoise.of(config).check()
    if config.privacy.protects != "records":
        return
    if not config.protects_records:
        why = "records are protected by learner 'dp-sgd' alone: leave training.learner out"
        raise SettingError("training.learner", config.training.learner, why)
    from fedlearn.privacy.record_costs import RecordPlan

    RecordPlan.of(config).check()


def notices_of(config: RunConfig, *, test_is_public: bool) -> list[str]:
    """Return the notices beside every epsilon of a private run: on its noise, and on its test rows."""
    from fedlearn.privacy import seeded_noise

    found = [] if promised(config).is_secure else [seeded_noise(0).notice]
    if trust_of(config) == DISTRIBUTED:
        found.append(_seen_of(config))
    if config.evaluation.where != "none":
        return found + [MEASURED] * (not test_is_public)
    return found + [UNMEASURED] * _hides_rows(config, test_is_public=test_is_public)


def _seen_of(config: RunConfig) -> str:
    """Return what distributed noise presupposes: who sees no less than which sum."""
    if config.secure.sums != "masked":
        return UNSEEN
    colluders = config.secure.colluders
    beside = f", of which {colluders} clients may tell their own noise" if colluders else ""
    return SUMMED.format(fewest=config.fewest_reports, colluders=beside)


def cost_of_initial(config: RunConfig, columns: Metrics) -> str:
    """Return a note where a run counts a privacy loss, and begins with a state that was made of records before."""
    counts = any(metric.is_privacy_loss for metric in columns.reported)
    return UNCOUNTED if config.model.initial and counts else ""


def without_exact(config: RunConfig, *, test_is_public: bool) -> RunConfig:
    """Return the settings of a private run without evaluation, where that would say exactly what noise is to hide."""
    if config.evaluation.where == "none" or not _hides_rows(config, test_is_public=test_is_public):
        return config
    log.warning("evaluation.where = %s: %s", config.evaluation.where, UNMEASURED)
    return config.model_copy(update={"evaluation": config.evaluation.model_copy(update={"where": "none"})})


def _hides_rows(config: RunConfig, *, test_is_public: bool) -> bool:
    return promised(config).is_secure and not test_is_public


def spent_by_partition(events: Path, loss: str, *, most: float) -> dict[int, float]:
    """Return partition -> what its node has spent, of all nodes from which a report has come, in whatever attempt.

    It is what a node says it has spent, in the metric `loss`; where nothing is believed of its report, `most`.
    """
    spent: dict[int, float] = {}
    with suppress(OSError):
        for event in EventTail(events).read():
            partition, said = event.get("partition"), event.get(loss, most)
            if event["event"] in CAME and event.get("bytes") and isinstance(partition, int):
                value = said if isinstance(said, int | float) and isfinite(said) else most
                spent[partition] = max(spent.get(partition, 0.0), float(value))
    return spent
