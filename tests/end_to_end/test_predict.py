"""What a run says of new rows, against predictions by hand: the preparation is written out here."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.inspection import permutation_importance
from torch import nn

import fedlearn
from fedlearn.cli import main
from fedlearn.core.errors import UsageError
from fedlearn.data import from_arrays
from fedlearn.predicting import Preparation
from fedlearn.predicting.predicted_file import predict_file
from fedlearn.predicting.predictions_in_words import Wanted

SMALL = {"clients": 3, "rounds": 2, "batch_size": 20, "engine": "inline", "progress": False}
TOML = """
data = "people.csv"
target = "bought"
classes = ["no", "yes"]
bounds = { age = [18, 90], income = [0, 100_000] }
categories = { job = ["clerk", "farmer", "nurse"] }
"""
JOBS = np.array(["clerk", "farmer", "nurse", None], object)


def people(count, seed):
    rng = np.random.default_rng(seed)
    age, income, job = (
        rng.integers(18, 91, count).astype(float),
        rng.random(count) * 1e5,
        JOBS[rng.integers(0, 4, count)],
    )
    bought = np.where(age / 2 + income / 2e3 + 20 * (job == "nurse") > 55, "yes", "no")
    age[::7] = np.nan
    ids = [f"{row:05d}" for row in range(count)]
    return pd.DataFrame({"id": ids, "age": age, "income": income, "job": job, "bought": bought})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    people(300, 1).to_csv(folder / "people.csv", index=False)
    (folder / "people.toml").write_text(TOML)
    return folder


@pytest.fixture(scope="module")
def new():
    frame = people(250, 2).drop(columns="bought")
    frame.loc[3, "job"] = "pilot"
    return frame[["job", "id", "income", "age"]]


def trained(folder, model, **settings):
    out = folder / "runs" / "-".join([model, *map(str, settings.values())])
    return fedlearn.run(data=str(folder / "people.toml"), model=model, out=str(out), settings=settings, **SMALL)


@pytest.fixture(scope="module")
def run(folder):
    return trained(folder, "linear")


def by_hand(network, frame):
    age, income = 2 * (frame.age - 18) / 72 - 1, 2 * frame.income / 1e5 - 1
    columns = [age.fillna(0), income, *((frame.job == job).astype(float) for job in JOBS[:3])]
    inputs = torch.tensor(np.column_stack(columns), dtype=torch.float32)
    return network(inputs).softmax(1).detach().numpy()


def test_network_on_a_declared_table_predicts_new_rows_as_by_hand(run, new):
    shares = by_hand(run.model(), new)
    np.testing.assert_allclose(run.predict_proba(new), shares, atol=1e-6)
    assert run.predict(new).tolist() == [("no", "yes")[place] for place in shares.argmax(1)]
    assert run.predict(new, top=2)[:, 0].tolist() == run.predict(new).tolist()
    assert (run.predict(new, threshold=0.8) == "yes").tolist() == (run.predict_proba(new)[:, 1] >= 0.8).tolist()
    assert run.predict(dict(new.iloc[9])) == run.predict(new)[9:10]
    labeled = people(250, 2).assign(more=1)
    right = (by_hand(run.model(), labeled).argmax(1) == (labeled.bought == "yes")).mean()
    assert run.evaluate((labeled, "bought"))["accuracy"] == pytest.approx(right)
    for wrong in ({"threshold": 2}, {"top": 3}, {"node": 1}, {"best": True, "node": 1}):
        with pytest.raises(UsageError):
            run.predict(new, **wrong)


DITTO = pytest.param({"strategy.name": "ditto"}, marks=pytest.mark.long)


@pytest.mark.parametrize("settings", [{"training.personal": "last"}, DITTO], ids=str)
def test_each_node_predicts_with_the_layers_that_it_keeps(folder, new, settings):
    run = trained(folder, "mlp", **settings)
    shares = [run.predict_proba(new, node=node) for node in range(3)]
    for node, found in enumerate(shares):
        np.testing.assert_allclose(found, by_hand(run.model(node=node), new), atol=1e-6)
    assert not np.allclose(shares[0], shares[1])
    assert not np.allclose(shares[0], run.predict_proba(new))
    assert np.array_equal(run.predict_proba(new, client=1), shares[1])
    assert np.array_equal(run.to_sklearn(client=1).predict(new), run.predict(new, client=1))
    for wrong, why in {3: "the run has clients 0 to 2", -1: "0 to 2", "1": "0 to 2", 1.5: "0 to 2"}.items():
        with pytest.raises(UsageError, match=f"client = .*{why}"):
            run.predict(new, client=wrong)
    with pytest.raises(UsageError, match="client = 1 and node = 2: they mean the same"):
        run.predict(new, client=1, node=2)
    new.to_csv(folder / "new.csv", index=False)
    scored = folder / "scored.parquet"
    with pytest.raises(SystemExit):
        main(["predict", f"{run.folder}", f"{folder}/new.csv", "--out", f"{scored}", "--client", "1", "--proba"])
    np.testing.assert_allclose(pd.read_parquet(scored)["probability_yes"], shares[1][:, 1], atol=1e-6)


@pytest.mark.parametrize(
    "model", ["dp-boosting", *(pytest.param(m, marks=pytest.mark.long) for m in ("dp-classifier", "dp-naive-bayes"))]
)
def test_private_trees_predict_the_codes_of_categories(folder, new, model):
    run = fedlearn.run(
        data=str(folder / "people.toml"), model=model, out=str(folder / "runs" / model), clients=3, epsilon=8,
        engine="inline", progress=False, rounds=2 if model == "dp-boosting" else 1,
    )  # fmt: skip
    place = {"clerk": 0.0, "farmer": 1.0, "nurse": 2.0}
    codes = np.column_stack([new.age, new.income, [place.get(job, np.nan) for job in new.job]])
    shares = run.predict_proba(new)
    np.testing.assert_array_equal(shares, run.predict_proba(codes))
    if hasattr(run.model(), "predict_proba"):
        np.testing.assert_array_equal(shares, run.model().predict_proba(new))
    assert run.predict(new).tolist() == [("no", "yes")[place] for place in shares.argmax(1)]
    with pytest.raises(UsageError, match="the model is no network"):
        run.export("torch-export")


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_file_in_pieces_keeps_rows_order_and_ids(run, new, tmp_path, ending):
    new.to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / f"scored{ending}"
    count, lines = predict_file(
        run.predictor(), tmp_path / "new.csv", out, keep=["id"], wanted=Wanted(), proba=True, rows=7
    )
    scored = pd.read_csv(out, dtype={"id": str}) if ending == ".csv" else pd.read_parquet(out)
    assert (count, len(scored), list(scored.id)) == (250, 250, list(new.id))
    assert lines == ["column 'job': 1 cells are none of the declared categories ('pilot'): they count as missing"]
    assert list(scored.prediction) == run.predict(new).tolist()
    np.testing.assert_allclose(scored[["probability_no", "probability_yes"]], run.predict_proba(new), rtol=1e-5)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_command_writes_the_file_and_says_what_was_lost(run, new, tmp_path, capsys):
    new.to_parquet(tmp_path / "new.parquet")
    out = tmp_path / "scored.parquet"
    with pytest.raises(SystemExit) as ended:
        main(["predict", str(run.folder), str(tmp_path / "new.parquet"), "--out", str(out), "--id", "id", "--top", "1"])
    assert ended.value.code == 0
    assert list(pd.read_parquet(out).columns) == ["id", "prediction_1", "probability_1"]
    said = capsys.readouterr()
    assert said.out == f"{out}: 250 rows\n" and "('pilot'): they count as missing" in said.err
    new.drop(columns="age").to_csv(tmp_path / "less.csv", index=False)
    for rows, ending, why in (("less.csv", "parquet", "no column 'age'"), ("new.parquet", "xls", "ends in .csv or")):
        with pytest.raises(SystemExit) as ended:
            main(["predict", str(run.folder), str(tmp_path / rows), "--out", str(tmp_path / f"o.{ending}")])
        assert ended.value.code == 2 and why in capsys.readouterr().err
    assert not list(tmp_path.glob("*o.*"))


def test_estimator_is_scored_and_inspected_and_refuses_to_fit(run):
    rows = people(200, 3)
    X, y = rows.drop(columns="bought"), rows.bought
    model = run.to_sklearn()
    assert model.score(X, y) == (run.predict(X) == y).mean() == clone(model).score(X, y)
    assert model.feature_names_in_.tolist() == ["age", "income", "job"] and model.classes_.tolist() == ["no", "yes"]
    important = permutation_importance(model, X, y, n_repeats=2, random_state=1).importances_mean
    assert important[0] == 0 < important[2]
    with pytest.raises(UsageError, match="trained by a federation"):
        model.fit(X, y)


@pytest.mark.long
def test_exported_program_gives_the_probabilities(run, new, tmp_path):
    path = run.export("torch-export", tmp_path / "model.pt2")
    prepared = Preparation.read(tmp_path / "model.preparation.json").inputs(new)
    answers = torch.export.load(path).module()(prepared).numpy(force=True)
    np.testing.assert_allclose(answers, run.predict_proba(new), atol=1e-5)
    with pytest.raises(UsageError, match="'pickle'"):
        run.export("pickle")


@pytest.mark.long
def test_exported_onnx_file_gives_the_probabilities(run, new, tmp_path):
    if find_spec("onnx") is None or find_spec("onnxscript") is None:
        with pytest.raises(UsageError, match=r'pip install "fedlearn\[onnx\]"'):
            run.export()
        pytest.skip("onnx and onnxscript are not installed")
    from onnx.reference import ReferenceEvaluator

    path = run.export("onnx", tmp_path / "model.onnx")
    (answers,) = ReferenceEvaluator(str(path)).run(None, {"inputs": run.inputs(new).numpy()})
    np.testing.assert_allclose(answers, run.predict_proba(new), atol=1e-5)


class TwoNumbers(nn.Linear):
    def __init__(self):
        super().__init__(3, 2)


def test_several_targets_are_predicted_by_name(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.random((80, 3), np.float32), columns=["a", "b", "c"])
    targets = pd.DataFrame({"warmth": frame.a * 3, "rain": frame.b - frame.c})
    run = fedlearn.run(data=(frame, targets), model=TwoNumbers, out=str(tmp_path / "run"), **SMALL)
    found = run.predict(frame[["c", "b", "a"]])
    wanted = run.model()(torch.tensor(frame.to_numpy())).detach().numpy()
    assert list(found.columns) == ["warmth", "rain"]
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    np.testing.assert_allclose(fedlearn.load(run.folder).to_sklearn().predict(frame), wanted, atol=1e-6)
    with pytest.raises(UsageError, match="no probabilities"):
        run.predict_proba(frame)


def test_pictures_of_any_size_and_kind_are_predicted_as_by_hand(tmp_path):
    rng = np.random.default_rng(1)
    for number in range(30):
        place = tmp_path / "pictures" / ("day", "night")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8) // (1 + number % 2)).save(place / f"{number}.png")
    new = [Image.fromarray(rng.integers(0, 256, shape, np.uint8)) for shape in ((8, 8, 3), (20, 9, 3), (5, 6))]
    run = fedlearn.run(data=str(tmp_path / "pictures"), model="linear", out=str(tmp_path / "run"), **SMALL)
    sized = [each.convert("RGB").resize((8, 8), Image.Resampling.BILINEAR) for each in new]
    scaled = (np.stack([np.asarray(each) for each in sized]) / 255 - run.spec.mean) / run.spec.std
    wanted = run.model()(torch.tensor(scaled.transpose(0, 3, 1, 2), dtype=torch.float32)).softmax(1)
    np.testing.assert_allclose(run.predict_proba(new), wanted.detach(), atol=1e-6)
    assert run.predict(new).tolist() == [("day", "night")[place] for place in wanted.argmax(1)]


class NextLetter(nn.Embedding):
    def __init__(self):
        super().__init__(3, 3)


def test_letters_of_texts_are_predicted_as_by_hand(tmp_path):
    tokens = np.random.default_rng(1).integers(0, 3, (60, 6))
    letters = from_arrays(tokens[:, :-1], tokens[:, 1:], vocabulary=3, classes=["a", "b", "c"])
    run = fedlearn.run(data=letters, model=NextLetter, out=str(tmp_path / "run"), **SMALL)
    wanted = torch.tensor(run.state["weight"][[[0, 1, 2, 2, 0], [2, 1, 1, 0, 0]]]).softmax(-1)
    np.testing.assert_allclose(run.predict_proba(["abcca", "cbbaa"]), wanted, atol=1e-6)
    assert run.predict(["abcca", "cbbaa"]).tolist() == np.array(["a", "b", "c"])[wanted.argmax(-1)].tolist()
