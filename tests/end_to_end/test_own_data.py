"""Data and models from outside: another shape, another number of classes, natural groups, a metric of their own."""

from __future__ import annotations

import signal

import pytest

from fedlearn.words.errors import SettingError
from tests.end_to_end.conftest import resumed, wait_until

OWN = {
    "data.dataset": "writers:load", "model.name": "letters:Letters", "model.options.width": 12, "clients": 10,
    "data.partition": "natural", "rounds.total": 4, "training.lr": 0.2,
}  # fmt: skip


def without_options(settings):
    """Return the settings without the width, where the model is not the one that has it."""
    is_own = settings["model.name"] == OWN["model.name"]
    return {name: value for name, value in settings.items() if is_own or not name.startswith("model.options")}


@pytest.fixture(scope="module")
def first():
    """The bytes of the first run of each model: any other run must have the same."""
    return {}


@pytest.mark.parametrize("model", ["letters:Letters", "cnn"])
@pytest.mark.parametrize("engine", ["inline", "embedded"])
def test_images_of_28_pixels_and_62_classes_make_the_same_model_on_every_engine(execute, first, model, engine):
    settings = {**OWN, "model.name": model, "rounds.total": 2}
    if model == "cnn":
        del settings["model.options.width"]
    run = execute(settings, engine=engine)
    assert run.sha == first.setdefault(model, run.sha)


@pytest.mark.slow
def test_own_data_and_model_survive_a_kill(execute, command):
    whole = execute(OWN, engine="inline")
    started = command(OWN)
    wait_until(lambda: started.run.committed >= 1 or started.process.poll() is not None, "a round")
    started.signal(signal.SIGKILL)
    assert resumed(started.run).sha == whole.sha


def test_a_row_from_outside_brings_data_strategy_rounds_and_metric_along(execute):
    run = execute({"model.name": "writers:RANKED", "data.dataset": "auto", "rounds.cohort": 5, "rounds.total": 3})
    (started,) = run.events_of("started")
    assert (started["strategy"], started["dataset"]) == ("fedavgm", "writers:load")
    ranks = [event["mean_rank"] for event in run.events_of("committed")]
    assert run.summary["best_mean_rank"] == min(ranks) < 31  # what guessing gives
    assert run.summary["best_round"] == ranks.index(min(ranks)) + 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model.options.width": 0}, "model.options.width = 0: it should be greater than or equal to 1"),
        ({"model.options.widht": 3}, "model.options.widht = 3: there is no such option; did you mean width?"),
        ({"clients": 13}, "clients = 13: at most 12, the number of groups of 'writers'"),
        ({"data.dataset": "digits"}, "data.partition = 'natural': 'digits' has no groups"),
        ({"model.name": "writers:EACH"}, "a name in capitals must be a ModelSpec, not int"),
        ({"model.name": "letters:of_rgb"}, "expected input[2, 1, 28, 28] to have 3 channels, but got 1"),
        (
            {"model.name": "letters:of_few"},
            "a step on two examples of 'writers' (shape (28, 28, 1), 62 classes) fails: "
            "ValueError: its outputs have shape (2, 10), which should be (2, 62)",
        ),
        ({"model.name": "math:tau"}, "model.name = 'math:tau': it is neither a torch.nn.Module class nor a function"),
    ],
)
def test_what_does_not_fit_is_one_line(execute, settings, said):
    with pytest.raises(SettingError) as error:
        execute(without_options({**OWN, **settings}), engine="inline")
    assert said in str(error.value)
    assert "\n" not in str(error.value)
