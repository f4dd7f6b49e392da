"""What every engine does before a run: find the data, and spread them over the nodes."""

from __future__ import annotations

import logging

from fedlearn.config import RunConfig
from fedlearn.config.presets import TREE_MODELS
from fedlearn.data import partition_table
from fedlearn.data.base import AnyDataset
from fedlearn.models.loaded import dataset_of

log = logging.getLogger(__name__)


def prepared(config: RunConfig) -> RunConfig:
    """Return the settings with the data set that was really found; for trees, with seeded noise in place of auto.

    Decodes the data set and computes the partitions, if they are not in the cache yet: all processes of the run then
    find them there, and none of them has to look for the data set again.
    """
    dataset = dataset_of(config)
    if dataset.notice:
        log.warning("%s", dataset.notice)
    partition_table(dataset, config.data, num_partitions=config.clients, seed=config.seed)
    privacy = config.privacy
    if privacy.noise == "auto" and config.model.name in TREE_MODELS:
        privacy = privacy.model_copy(update={"noise": "seeded"})
    return _with_found(config, dataset).model_copy(update={"privacy": privacy})


def with_found_data(config: RunConfig) -> RunConfig:
    """Return the settings with the data set that was really found, and the notice of it: what a result must say."""
    return _with_found(config, dataset_of(config))


def _with_found(config: RunConfig, dataset: AnyDataset) -> RunConfig:
    name = config.data.dataset if ":" in config.data.dataset else dataset.name
    found = config.data.model_copy(update={"dataset": name, "notice": dataset.notice or config.data.notice})
    return config.model_copy(update={"data": found})
