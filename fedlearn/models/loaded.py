"""The data set and the model of a run, loaded once in each process that computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedlearn.config import RunConfig, from_flower, per_run
from fedlearn.data import load_dataset
from fedlearn.data.base import Dataset
from fedlearn.models import Evaluation, Model, load_model
from fedlearn.state import State, UpdateKind


@per_run
def loaded(config: RunConfig) -> tuple[Dataset, Model]:
    """Return the run's data set and model."""
    dataset = load_dataset(config.data.dataset, config.data.dir)
    return dataset, load_model(config.model.name, dataset)


def update_kind(settings: Mapping[str, Any], state: State) -> UpdateKind:
    """Return what an update of the run's model means."""
    return loaded(from_flower(settings))[1].update_kind


def initial_state(settings: Mapping[str, Any], state: State) -> State:
    """Return the state before round 1, whatever `state` is."""
    config = from_flower(settings)
    return loaded(config)[1].initial_state(seed=config.seed)


def evaluate_part(settings: Mapping[str, Any], state: State, start: int, stop: int) -> Evaluation:
    """Return how `state` does on the test examples from `start` to `stop`; parts are added in order."""
    dataset, model = loaded(from_flower(settings))
    test = dataset.test
    return model.evaluate(state, replace(test, images=test.images[start:stop], labels=test.labels[start:stop]))
