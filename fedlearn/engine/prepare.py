"""The preparation of a run on any engine: find the data, and partition them over the nodes."""

from __future__ import annotations

import logging
import re
from math import prod
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedlearn.config import RunConfig
from fedlearn.config.baselines import CENTRAL, NONE, as_baseline
from fedlearn.config.load import forget_last
from fedlearn.config.tables.privacy import PrivacySettings
from fedlearn.core.errors import SettingError
from fedlearn.data.cache import checked
from fedlearn.data.partitioning import partition_table
from fedlearn.data.scaling import with_scaling
from fedlearn.devices import with_fingerprint
from fedlearn.engine import load_engine
from fedlearn.models import model_spec
from fedlearn.models.loaded import dataset_of, is_ours, with_found
from fedlearn.plugins import objects

SLOW = (
    "training.precision = %r: this processor has no instructions for bfloat16, and a step takes many times as long as "
    "in float32"
)

UNEVEN = 2
UNEVEN_SHARES = (
    "data.partition = 'iid': the %d clients hold from %d to %d records, as with a private model each record draws its "
    "client, equal ones the same"
)
STACK_ON_A_GPU = 50  # nodes: a cohort of the published benchmark
STACK = 10  # nodes: more gain nothing
SMALL = {"cnn": (3072, 100), "linear": (3072, 50)}
"""Model -> numbers of an example, and examples of a batch, up to which ten nodes at a time save time on a CPU."""

log = logging.getLogger(__name__)


def prepared(config: RunConfig) -> RunConfig:
    """Return the settings with the data set and device that were found, a stack that fits, and the source of noise.

    The data set is decoded and the partitions are computed, if they are not in the cache yet: all processes of the run
    then find them there. The cache's content is compared with its checksum here, once for the run, and made again where
    it differs.
    """
    objects.look_in(config.out)
    forget_last()
    config = with_scaling(_with_noise_of_a_simulation(_as_baseline(config)))
    with checked():
        dataset = dataset_of(config)
        if dataset.made is not None and config.training.baseline == CENTRAL:
            why = (
                f"the examples of {dataset.name!r} are made for each client, and no client holds all: take stored data"
            )
            raise SettingError("training.baseline", CENTRAL, why)
        by_record = _keeps_records(config)
        table = partition_table(
            dataset, config.data, num_partitions=config.clients, seed=config.seed, by_record=by_record
        )
    for line in dataset.owner_notices:
        log.warning("%s", line)
    if by_record and config.data.partition == "iid":
        _say_where_uneven(table.sizes())
    if dataset.notice:
        log.warning("%s", dataset.notice)
    privacy = _declared(config, config.privacy, len(dataset.train), is_public=is_ours(config))
    found = with_found(config, dataset)
    if found.training.precision != "float32" and found.engine.device == "cpu" and not has_bfloat16():
        log.warning(SLOW, found.training.precision)
    training = found.training.model_copy(update={"stack": found.training.stack or _usual_stack(found)})
    devices = with_fingerprint(config.devices)
    return found.model_copy(update={"privacy": privacy, "devices": devices, "training": training})


def _as_baseline(config: RunConfig) -> RunConfig:
    """Return the settings of the baseline that they name, if they name one; refuse one of a model without steps."""
    if config.training.baseline != NONE and not model_spec(config.model.name).trains_in_steps:
        raise SettingError(
            "training.baseline", config.training.baseline,
            f"it is for models that are trained in steps; all data at one client are --clients 1, also for model "
            f"{config.model.name!r}",
        )  # fmt: skip
    return as_baseline(config)


def _with_noise_of_a_simulation(config: RunConfig) -> RunConfig:
    """Return the settings with seeded noise where they leave its source open; reading the data depends on it."""
    if config.privacy.noise != "auto" or not _may_add_noise(config):
        return config
    return config.model_copy(update={"privacy": config.privacy.model_copy(update={"noise": "seeded"})})


def _say_where_uneven(sizes: NDArray[Any]) -> None:
    """Warn where nodes hold very different numbers of records by chance, as each record draws its node."""
    fewest, most = int(sizes.min()), int(sizes.max())
    if most > UNEVEN * fewest:
        log.warning(UNEVEN_SHARES, len(sizes), fewest, most)


def has_bfloat16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Return whether this processor computes in bfloat16; True where that cannot be found out."""
    try:
        words = set(re.findall(r"\w+", cpuinfo.read_text(encoding="utf-8")))
    except OSError:
        return True
    return bool(words & {"avx512_bf16", "amx_bf16", "bf16"})


def _usual_stack(found: RunConfig) -> int:
    """Return the default of nodes trained in one computation: several on a GPU, which one small network leaves idle."""
    if found.engine.device == "cpu":
        return 0
    return min(found.goal_count, STACK_ON_A_GPU) if _can_stack(found) else 1


def _can_stack(config: RunConfig) -> bool:
    return config.rounds.schedule == "synchronous" and load_engine(config.engine.name).stacks


def trained_together(config: RunConfig) -> int:
    """Return how many nodes an engine trains in one computation: ``training.stack``; with 0 by the table `SMALL`.

    With 0 they have the bytes that they have one by one, so the number is no setting of the run. Nodes that hold
    unequally many examples have batches of unequal sizes, which are not computed together.
    """
    is_even = config.data.partition == "iid"
    if config.training.stack or config.model.name not in SMALL or not is_even or not _can_stack(config):
        return max(config.training.stack, 1)
    dataset, (numbers, batch) = dataset_of(config), SMALL[config.model.name]
    rows = min(config.training.batch_size, len(dataset.train) // config.clients)
    return STACK if prod(dataset.spec.shape) <= numbers and rows <= batch else 1


def _may_add_noise(config: RunConfig) -> bool:
    """Return whether nodes may add noise; a learner, mod or feature from outside may, without being imported here."""
    outside = (":" in config.training.learner, config.client.mods, config.rounds.features)
    return _keeps_records(config) or config.protects_nodes or any(outside)


def _keeps_records(config: RunConfig) -> bool:
    """Return whether nodes publish nothing of their records but what a budget pays for."""
    return model_spec(config.model.name).is_private or config.protects_records


def _declared(config: RunConfig, privacy: PrivacySettings, records: int, *, is_public: bool) -> PrivacySettings:
    """Return the settings with a declared number of records of a node, if it is left to a simulation."""
    if not config.protects_records or privacy.records:
        return privacy
    if privacy.noise != "seeded" and not is_public:
        why = "declare about how many records a client holds: its true number is what noise is to hide"
        raise SettingError("privacy.records", 0, why)
    return privacy.model_copy(update={"records": max(records // config.clients, 1)})
