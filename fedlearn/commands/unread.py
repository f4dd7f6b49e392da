"""Settings that were given and that nothing reads, or that cannot be had in full: each is one line, before the run.

Only what somebody has written on a command line is looked at: a file of settings may hold all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fedlearn.compression import CODECS
from fedlearn.compression.parse import SHORT
from fedlearn.config import RunConfig
from fedlearn.models import model_spec

SPARSIFIERS = ("drop", "rand-k", "top-k", "ternary")
OF_SGD = (
    "batch_size", "clip_norm", "local_epochs", "lr", "lr_decay", "lr_schedule", "momentum", "optimizer", "partial",
    "precision", "proximal_mu", "stack", "weight_decay",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads a setting.

    Parameters
    ----------
    setting
        Its dotted name.
    is_there
        Whether anybody does in a run of these settings.
    who
        Who does: what is to be chosen, for it to have an effect.
    """

    setting: str
    is_there: Callable[[RunConfig], bool]
    who: str


def unread(given: Mapping[str, Any], config: RunConfig) -> Iterator[str]:
    """Yield a line for each setting that was given in vain.

    >>> list(unread({"data.alpha": 0.5}, RunConfig()))
    ["data.alpha = 0.5 has no effect: it is for data.partition = 'dirichlet'"]
    """
    for name in given:
        for reader in READERS:
            if name == reader.setting and not reader.is_there(config):
                yield f"{name} = {_value(config, name)!r} has no effect: it is for {reader.who}"
                break
    wanted = config.rounds.cohort
    if "rounds.cohort" in given and wanted > config.clients:
        yield f"rounds.cohort = {wanted} is more than there are: all {config.clients} clients take part in each round"


def _value(config: RunConfig, name: str) -> Any:
    table, _, key = name.rpartition(".")
    return getattr(getattr(config, table) if table else config, key)


def _grows_trees(config: RunConfig) -> bool:
    return not model_spec(config.model.name).trains_in_steps


def _is_private(config: RunConfig) -> bool:
    """Whether nodes spend a budget; a learner from outside may have one."""
    return model_spec(config.model.name).is_private or ":" in config.training.learner


def _trains_by_sgd(config: RunConfig) -> bool:
    """Whether a torch learner takes the steps; one from outside may read whatever it likes."""
    return ":" in config.training.learner or not _grows_trees(config)


def _drops_by_setting(config: RunConfig) -> bool:
    """Whether a stage of the chain takes its share of entries from the settings; a codec from outside may."""
    stages = [stage.strip().partition(":") for stage in config.compression.codec.split(",")]
    return any((name in SPARSIFIERS and not argument) or name not in (*CODECS, *SHORT) for name, _, argument in stages)


def _drops(config: RunConfig) -> bool:
    names = {stage.strip().partition(":")[0] for stage in config.compression.codec.split(",")}
    return "drop" in names or "rand-k" in names or not names <= {*CODECS, *SHORT}


READERS = (
    Reader("compression.granularity", _drops, "a codec that drops entries, as 'drop'"),
    Reader(
        "compression.keep_ratio",
        _drops_by_setting,
        "a codec that drops entries and names no share itself, as 'drop'",
    ),
    Reader("data.alpha", lambda config: config.data.partition == "dirichlet", "data.partition = 'dirichlet'"),
    Reader(
        "data.classes_per_node",
        lambda config: config.data.partition == "pathological",
        "data.partition = 'pathological'",
    ),
    Reader("data.shards_per_node", lambda config: config.data.partition == "shard", "data.partition = 'shard'"),
    Reader("engine.address", lambda config: config.engine.name == "ray", "engine.name = 'ray'"),
    Reader("engine.client_cpus", lambda config: config.engine.name == "ray", "engine.name = 'ray'"),
    Reader("engine.client_gpus", lambda config: config.engine.name == "ray", "engine.name = 'ray'"),
    Reader("engine.device", _trains_by_sgd, "a model of torch"),
    Reader("engine.workers", lambda config: config.engine.name != "inline", "engine.name = 'embedded' or 'ray'"),
    Reader("gate.max_depth", _grows_trees, "a model of trees"),
    Reader("gate.max_nodes", _grows_trees, "a model of trees"),
    Reader("privacy.epsilon", _is_private, "a private model"),
    Reader("privacy.public_sizes", _is_private, "a private model"),
    Reader("privacy.trust", lambda config: model_spec(config.model.name).sums, "a model of sums, as dp-naive-bayes"),
    Reader("training.momentum", lambda config: config.training.optimizer == "sgd", "training.optimizer = 'sgd'"),
    Reader(
        "training.lr_decay",
        lambda config: config.training.lr_schedule not in ("constant", "cosine"),
        "training.lr_schedule = 'inverse'",
    ),
    *(Reader(f"training.{name}", _trains_by_sgd, "a model of torch") for name in OF_SGD),
    Reader("data.augment", _trains_by_sgd, "a model of torch"),
)
