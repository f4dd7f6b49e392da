"""Models of the table on texts, series and rows fit the targets, learn, and are reproducible."""

from __future__ import annotations

import numpy as np
import pytest

from client.learners.learner import LocalTask
from client.learners.sgd import SGD
from fedlearn.config import config_from
from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import Examples
from fedlearn.data.dataset import Dataset
from fedlearn.models import MODELS, load_model
from tests.marked import thinned
from tests.oracles import forests, texts

RNG = np.random.default_rng(1)


def series(number, classes):
    """Series of two channels; the class, or the number, is in where the first channel goes."""
    slope = RNG.normal(size=number)
    values = slope[:, None, None] * np.linspace(0, 1, 9)[:, None] + RNG.normal(scale=0.1, size=(number, 9, 2))
    targets = (slope > 0).astype(np.int64) if classes else np.stack([slope, -slope], axis=1).astype(np.float32)
    return Examples(values.astype(np.float32), targets)


def made(name, classes):
    return Dataset(name, series(120, classes), series(60, classes), classes, (), (), name)


DATA = {
    "text, each letter": texts.dataset(),
    "text, last letter": texts.dataset(each_place=False),
    "series of classes": made("series", 2),
    "series with numbers": made("numbers", 0),
    "table of numbers": forests.dataset(forests.REGRESSION),
    "table of classes": forests.dataset(forests.CLASSIFICATION),
}


def fits(name, dataset):
    try:
        return bool(load_model(name, dataset.spec))
    except SettingError as error:
        assert "\n" not in str(error)
        assert str(error).startswith(f"data.dataset = '{dataset.spec.name}': ")
        return False


NEURAL = [name for name, row in MODELS.items() if row.trains_in_steps]
CASES = [(model, data) for model in NEURAL for data in DATA if fits(model, DATA[data])]


def test_there_is_a_model_for_every_kind_of_data():
    assert {data for _, data in CASES} == set(DATA)


@pytest.mark.parametrize(("name", "data"), thinned(CASES, 2), ids=[" on ".join(case) for case in CASES])
def test_a_model_learns_and_is_reproducible(name, data):
    dataset = DATA[data]
    settings = {
        "training.local_epochs": 5,
        "training.batch_size": 20,
        "training.lr": 0.01,
        "training.optimizer": "adam",
    }
    ends = []
    for _ in range(2):
        model = load_model(name, dataset.spec)
        model.try_step(dataset.test.at(slice(0, 2)))
        state = model.initial_state(seed=1)
        before = model.evaluate(state, dataset.test).means
        task = LocalTask(dataset.train, np.arange(len(dataset.train)), 1, 1, 0, {})
        after = SGD.from_settings(model, config_from(settings)).fit(state, task)
        ends.append({key: array.copy() for key, array in after.arrays.items()})
        means = model.evaluate(ends[-1], dataset.test).means
        measured = next(
            metric for metric in model.metrics.evaluated if metric.name in means and metric.better == "down"
        )
        assert means[measured.name] < before[measured.name]
    assert {key: array.tobytes() for key, array in ends[0].items()} == {k: a.tobytes() for k, a in ends[1].items()}


def test_evaluation_of_parts_of_a_text_adds_up_to_that_of_the_whole():
    dataset = DATA["text, each letter"]
    model = load_model("lstm", dataset.spec, '{"width": 8}')
    state = model.initial_state(seed=1)
    whole = model.evaluate(state, dataset.test)
    parts = model.evaluate(state, dataset.test.at(slice(0, 11))) + model.evaluate(state, dataset.test.at(slice(11, 30)))
    assert whole.count == parts.count == 30
    assert whole.means == pytest.approx(parts.means, rel=1e-5)
    assert whole.means["loss"] == pytest.approx(np.log(texts.LETTERS), rel=0.1)  # of an untrained model


def test_a_transformer_looks_only_backwards():
    import torch

    model = load_model("transformer", DATA["text, each letter"].spec)
    letters = torch.tensor([[1, 2, 3, 4, 5, 6], [1, 2, 3, 0, 0, 0]])
    first, second = model.module.eval()(letters)
    assert torch.allclose(first[:, :3], second[:, :3], atol=1e-6)  # (classes, length)
    assert not torch.allclose(first[:, 3:], second[:, 3:], atol=1e-3)
