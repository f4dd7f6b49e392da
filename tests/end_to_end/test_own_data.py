"""Data and models from outside: another shape, another number of classes, natural groups, a metric of their own."""

from __future__ import annotations

import signal

import numpy as np
import pandas as pd
import pytest

import fedlearn
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.data import Examples, from_arrays
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


@pytest.mark.long
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
        ({"model.options.width": 0}, "model.options.width = 0: expected a whole number of at least 1"),
        ({"model.options.widht": 3}, "model.options.widht = 3: there is no such option; did you mean width?"),
        ({"clients": 13}, "clients = 13: at most 12, the number of groups of 'writers'"),
        ({"data.dataset": "digits"}, "data.partition = 'natural': 'digits' has no groups"),
        ({"model.name": "writers:EACH"}, "a name in capitals must be a ModelSpec, not int"),
        ({"model.name": "letters:of_rgb"}, "a convolution takes 3 channels and gets 1: write in_channels=1"),
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


ROWS = np.random.default_rng(2).normal(size=(120, 5)).astype(np.float32)
KINDS = np.array(["cat", "dog", "owl"])[np.abs(ROWS[:, :3]).argmax(1)]
FRAME = pd.DataFrame(ROWS, columns=list("abcde")).assign(kind=KINDS)
QUICK = {"model": "mlp", "rounds": 2, "cohort": 0, "batch_size": 10, "progress": False}


def test_data_as_people_have_them_make_the_bytes_of_from_arrays(tmp_path):
    forms = [from_arrays(ROWS, KINDS), (ROWS, KINDS), [(x, y) for x, y in zip(ROWS, KINDS, strict=True)]]
    runs = [
        fedlearn.run(clients=3, data=data, engine="inline", out=tmp_path / str(place), **QUICK)
        for place, data in enumerate(forms)
    ]
    assert len({run.sha256 for run in runs}) == 1


@pytest.mark.long
def test_data_node_by_node_make_the_same_bytes_with_one_and_two_workers(tmp_path):
    nodes = {"west": (FRAME[:50], "kind"), "east": (FRAME[50:][["kind", *"edcba"]], "kind")}
    runs = [
        fedlearn.run(data=nodes, workers=workers, engine=engine, out=tmp_path / f"{engine}{workers}", **QUICK)
        for workers, engine in ((1, "embedded"), (2, "embedded"), (1, "inline"))
    ]
    assert len({run.sha256 for run in runs}) == 1
    assert (runs[0].settings.clients, runs[0].settings.data.partition) == (2, "natural")
    assert fedlearn.run(resume=runs[0], data=nodes, rounds=3, progress=False).summary["rounds"] == 3


def test_other_data_in_any_form_are_scored_by_their_names(tmp_path):
    run = fedlearn.run(clients=3, data=(FRAME, "kind"), engine="inline", out=tmp_path / "run", **QUICK)
    whole = run.evaluate(Examples(ROWS, np.unique(KINDS, return_inverse=True)[1]))
    turned = FRAME[["kind", *"edcba"]]
    forms = [(ROWS, KINDS), (turned, "kind"), (turned.drop(columns="kind"), KINDS), {"a": (turned, "kind")}]
    assert all(run.evaluate(data) == whole for data in forms)
    two = turned[turned.kind != "cat"]
    right = run.model()(run.inputs(two.drop(columns="kind"))).argmax(1).numpy()
    names = np.array(run.spec.class_names)
    assert run.evaluate((two, "kind"))["accuracy"] == pytest.approx((names[right] == two.kind).mean())
    assert run.evaluate((FRAME, FRAME[:9], "kind")) == run.evaluate((FRAME[:9], "kind"))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ((FRAME.drop(columns="c"), "kind"), "it has no column 'c', from which the run has learned"),
        ((FRAME.assign(kind="fox"), "kind"), "y: example 0 is 'fox', which is none of the classes"),
        ((ROWS[:, :3], KINDS), "these have shape (120, 3)"),
        ((ROWS.astype(np.uint8), np.arange(120) % 4), "y: example 3 holds 3: a class is from 0 to 2"),
        ((ROWS, np.arange(120) / 7), "y holds numbers (float32) and classes are given"),
        (FRAME, "a frame does not say which column is learned"),
    ],
)
def test_other_data_that_do_not_fit_are_one_line(run_of_frames, data, said):
    with pytest.raises(UsageError) as error:
        run_of_frames.evaluate(data)
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.fixture(scope="module")
def run_of_frames(tmp_path_factory):
    folder = tmp_path_factory.mktemp("frames") / "run"
    return fedlearn.run(clients=3, data=(FRAME, "kind"), engine="inline", out=folder, **{**QUICK, "rounds": 1})
