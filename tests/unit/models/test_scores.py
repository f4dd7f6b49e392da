"""Scores of all outputs at once: the numbers of scikit-learn, missing where not defined, refused if too big."""

from __future__ import annotations

import json
from functools import partial
from math import isnan

import numpy as np
import pytest
import torch
from sklearn import metrics
from torch import nn
from torch.nn import functional

from fedlearn.config import config_from
from fedlearn.core.errors import SettingError
from fedlearn.core.metric import LOSS, TRAIN_LOSS, Metric
from fedlearn.core.metrics import Metrics
from fedlearn.data import from_arrays
from fedlearn.data.data_spec import DataSpec
from fedlearn.models.loaded import evaluate_part, loaded, scores_of_test_set, trial
from fedlearn.models.model import Evaluation
from fedlearn.models.objectives import Classification, Labels, Objective, Regression
from fedlearn.models.scores import scores_of
from fedlearn.models.scores.scikit import bounds_of
from fedlearn.models.torch.torch_model import TorchModel
from fedlearn.plugins.objects import reference_to

RNG = np.random.default_rng(1)
X = RNG.normal(size=(700, 5)).astype(np.float32)
THREE = from_arrays(X, (X[:, :3] + RNG.normal(size=(700, 3))).argmax(1))
TWO = from_arrays(X, (X[:, 0] + RNG.normal(size=700) > 0).astype(int))
LABELED = from_arrays(X, (X[:, :3] + RNG.normal(size=(700, 3)) > 0).astype(np.float32))
NUMBERS = from_arrays(X, X[:, 0] * 3 + 20)


def model_of(data, outputs, scores, *, loss=None, mb=500):
    config = config_from({"evaluation.scores": scores, "evaluation.scores_mb": mb})
    model = TorchModel(lambda: nn.Linear(5, outputs), data.spec, loss)
    return model.planned(config)


def evaluated(data, outputs, scores, *, loss=None, rows=None):
    """The module's outputs on the test set, its targets, and what is measured."""
    model = model_of(data, outputs, scores, loss=loss)
    state = model.initial_state(seed=3)
    test = data.test if rows is None else data.test.at(rows)
    found = model.evaluate(state, test).means
    with torch.inference_mode():
        return model.outputs(model.inputs(np.array(test.inputs))).double(), test.targets, found


def test_auroc_and_macro_f1_are_those_of_scikit_learn():
    names = ["roc_auc_ovr", "f1_macro", "balanced_accuracy", "neg_log_loss", "cohen_kappa_score", "top_k_accuracy"]
    logits, y, found = evaluated(THREE, 3, names)
    shares, guess = logits.softmax(1).numpy(), logits.argmax(1).numpy()
    assert found["roc_auc_ovr"] == pytest.approx(metrics.roc_auc_score(y, shares, multi_class="ovr"), abs=1e-9)
    assert found["f1_macro"] == pytest.approx(metrics.f1_score(y, guess, average="macro"), abs=1e-9)
    assert found["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(y, guess), abs=1e-9)
    assert found["neg_log_loss"] == pytest.approx(-metrics.log_loss(y, shares), abs=1e-9)
    assert found["cohen_kappa_score"] == pytest.approx(metrics.cohen_kappa_score(y, guess), abs=1e-9)
    assert found["top_k_accuracy"] == pytest.approx(metrics.top_k_accuracy_score(y, shares), abs=1e-9)


def test_two_classes_are_scored_by_the_second():
    logits, y, found = evaluated(TWO, 2, "roc_auc,f1,average_precision,brier_score_loss")
    share = logits.softmax(1)[:, 1].numpy()
    assert found["roc_auc"] == pytest.approx(metrics.roc_auc_score(y, share), abs=1e-9)
    assert found["f1"] == pytest.approx(metrics.f1_score(y, logits.argmax(1)), abs=1e-9)
    assert found["average_precision"] == pytest.approx(metrics.average_precision_score(y, share), abs=1e-9)
    assert found["brier_score_loss"] == pytest.approx(metrics.brier_score_loss(y, share), abs=1e-9)


def test_one_logit_of_two_classes_is_scored_by_its_sigmoid():
    loss = Labels(TWO.spec, functional.binary_cross_entropy_with_logits)
    logits, y, found = evaluated(TWO, 1, "roc_auc,f1,accuracy_score", loss=loss)
    assert found["roc_auc"] == pytest.approx(metrics.roc_auc_score(y, logits[:, 0]), abs=1e-9)
    assert found["f1"] == pytest.approx(metrics.f1_score(y, logits[:, 0] > 0), abs=1e-9)
    assert found["accuracy_score"] == pytest.approx(found["accuracy"])


def test_labels_are_scored_by_their_sigmoids():
    loss = Labels(LABELED.spec, functional.binary_cross_entropy_with_logits)
    logits, y, found = evaluated(LABELED, 3, "roc_auc,f1_macro,average_precision", loss=loss)
    assert found["roc_auc"] == pytest.approx(metrics.roc_auc_score(y, logits), abs=1e-9)
    assert found["f1_macro"] == pytest.approx(metrics.f1_score(y, logits > 0, average="macro"), abs=1e-9)
    assert found["average_precision"] == pytest.approx(metrics.average_precision_score(y, logits), abs=1e-9)


def test_numbers_are_scored_in_the_unit_of_the_targets():
    outputs, y, found = evaluated(NUMBERS, 1, "r2,neg_median_absolute_error,d2_absolute_error_score")
    assert found["r2"] == pytest.approx(metrics.r2_score(y, outputs[:, 0]))
    assert found["neg_median_absolute_error"] == pytest.approx(-metrics.median_absolute_error(y, outputs[:, 0]))
    scaled = Regression(DataSpec("prices", (5,), "float32", target_bounds=(0.0, 40.0)))
    raw = np.array([0.0, 10.0, 40.0])
    predictions = scaled.predictions(torch.tensor([[-1.0], [0.0], [1.0]]), scaled.targets(raw))
    assert predictions.truth.tolist() == [0, 10, 40] and predictions.guess.tolist() == [0, 20, 40]


def test_places_of_an_example_count_as_examples():
    texts = Classification(DataSpec("text", (4,), "int32", classes=3, vocabulary=5, target_shape=(4,)))
    labels = torch.tensor([[0, 1, 2, -100], [2, 1, 0, 0]])
    found = texts.predictions(torch.randn(2, 3, 4), labels)
    assert found.truth.tolist() == [0, 1, 2, 2, 1, 0, 0] and found.shares.shape == (7, 3)


def expected_calibration_error(outputs, targets):
    sure, guess = outputs.softmax(1).max(1)
    bins = (sure * 10).long().clamp(max=9)
    gaps = [(sure[bins == k] - (guess == targets)[bins == k].float()).sum().abs() for k in range(10)]
    return sum(gaps) / len(targets)


class RightShare:
    """What torchmetrics' metrics have."""

    higher_is_better, plot_lower_bound, plot_upper_bound = True, 0.0, 1.0

    def __init__(self, num_classes: int = 3):
        self.num_classes = num_classes
        self.reset()

    def reset(self):
        self.right = self.count = 0

    def update(self, preds, target):
        assert preds.shape == (len(target), self.num_classes)
        self.right += int((preds.argmax(1) == target).sum())
        self.count += len(target)

    def compute(self):
        return torch.tensor(self.right / self.count)


def test_functions_and_objects_of_ones_own_are_scores():
    metric = RightShare()
    given = [f"{__name__}:expected_calibration_error", reference_to(metric, name="own"), f"{__name__}:preds_mean"]
    logits, y, found = evaluated(THREE, 3, given)
    assert found["expected_calibration_error"] == pytest.approx(
        float(expected_calibration_error(logits, torch.tensor(y)))
    )
    assert found["right_share"] == pytest.approx(metrics.accuracy_score(y, logits.argmax(1)))
    assert found["preds_mean"] == pytest.approx(1 / 3)
    assert metric.count == 0


def preds_mean(preds, target):
    return preds.mean()


def test_options_stand_behind_a_name():
    given = [
        {"sklearn.metrics:fbeta_score": {"average": "macro", "beta": 2}},
        {f"{__name__}:RightShare": {"num_classes": 3}},
    ]
    logits, y, found = evaluated(THREE, 3, given, loss=Unmeasured(THREE.spec))
    wanted = metrics.fbeta_score(y, logits.argmax(1), average="macro", beta=2)
    assert found["fbeta_score_macro"] == pytest.approx(wanted, abs=1e-9)
    partial_one = reference_to(partial(metrics.fbeta_score, average="macro", beta=2))
    assert scores_of(json.dumps([partial_one]))[0].metric.name == "fbeta_score_macro"


def test_which_values_are_better_and_possible_follows_from_names():
    def metric_of(entry):
        return scores_of(json.dumps([entry]))[0].metric

    assert (metric_of("roc_auc").better, metric_of("neg_log_loss").better) == ("up", "up")
    assert (metric_of("hamming_loss").better, metric_of("f1_score").better) == ("down", "up")
    assert metric_of({"sklearn.metrics:f1_score": {"average": "macro"}}).better == "up"
    own = metric_of(f"{__name__}:expected_calibration_error")
    assert (own.better, own.headline, own.is_score) == ("down", True, True)
    assert not metric_of(f"{__name__}:preds_mean").headline
    assert (metric_of(f"{__name__}:RightShare").low, bounds_of("matthews_corrcoef")) == (0, (-1, 1))


def test_first_ranked_score_finds_the_best_round():
    model = model_of(THREE, 3, [f"{__name__}:preds_mean", "roc_auc_ovr", "f1_macro"])
    assert model.metrics.best_by == "roc_auc_ovr"
    assert [metric.name for metric in model.metrics.evaluated if metric.headline] == [
        "roc_auc_ovr",
        "f1_macro",
        "accuracy",
    ]


@pytest.mark.parametrize("name", ["roc_auc", "average_precision", "f1_macro", "matthews_corrcoef"])
def test_scores_of_one_class_are_missing(name):
    *_, found = evaluated(TWO, 2, name, rows=np.flatnonzero(TWO.test.targets == 1))
    assert name not in found and "accuracy" in found


def test_score_that_needs_all_classes_is_missing_where_one_has_no_example():
    *_, found = evaluated(THREE, 3, "roc_auc_ovr,f1_macro", rows=np.flatnonzero(THREE.test.targets != 2))
    assert "roc_auc_ovr" not in found and "f1_macro" in found


class MulticlassAUROC(RightShare):
    """Of torchmetrics' kind; that counts a class without examples as 0."""


def test_torchmetrics_ranking_is_missing_where_a_class_has_no_example():
    some = np.flatnonzero(THREE.test.targets != 2)
    names = [f"{__name__}:MulticlassAUROC", f"{__name__}:RightShare"]
    assert {"multiclass_auroc", "right_share"} <= evaluated(THREE, 3, names)[2].keys()
    assert {"multiclass_auroc", "right_share"} & evaluated(THREE, 3, names, rows=some)[2].keys() == {"right_share"}


def test_ranking_of_labels_is_missing_where_a_label_never_stands():
    loss = Labels(LABELED.spec, functional.binary_cross_entropy_with_logits)
    some = np.flatnonzero(LABELED.test.targets[:, 1] == 0)
    *_, found = evaluated(LABELED, 3, "average_precision,f1_macro", loss=loss, rows=some)
    assert "average_precision" not in found and "f1_macro" in found


def test_outputs_with_nan_have_no_score():
    model = model_of(TWO, 2, ["roc_auc", f"{__name__}:expected_calibration_error"])
    state = {name: np.full_like(array, np.nan) for name, array in model.initial_state(seed=1).items()}
    found = model.evaluate(state, TWO.test)
    assert all(isnan(value) for value in found.scores.values()) and len(found.scores) == 2
    assert not found.scores.keys() & found.means.keys()


class Unmeasured(Classification):
    metrics = Metrics((TRAIN_LOSS,), (LOSS,))

    def measure(self, outputs, targets):
        return {"loss": super().measure(outputs, targets)["loss"]}


class Ranked(Classification):
    metrics = Metrics((TRAIN_LOSS,), (Metric("gini", better="up", headline=True, low=-1, high=1, is_score=True), LOSS))

    def measure(self, outputs, targets):
        return {"loss": super().measure(outputs, targets)["loss"]}

    def score(self, outputs, targets):
        return {"gini": 2 * metrics.roc_auc_score(targets, outputs.softmax(1), multi_class="ovr") - 1}


class Undeclared(Ranked):
    metrics = Metrics((TRAIN_LOSS,), (LOSS,))


def test_objective_scores_all_outputs():
    *_, found = evaluated(THREE, 3, "roc_auc_ovr", loss=Ranked(THREE.spec))
    assert found["gini"] == pytest.approx(2 * found["roc_auc_ovr"] - 1, abs=1e-6)
    with pytest.raises(
        SettingError, match=r"Undeclared.score returns 'gini'.*add Metric\('gini', ..., is_score=True\)"
    ):
        model_of(THREE, 3, "", loss=Undeclared(THREE.spec)).try_scores(torch.zeros(2, 3), rows=10)


def test_parts_of_a_test_set_are_scored_together():
    settings = {"data.dataset": "digits", "model.name": "linear", "evaluation.scores": "f1_macro,roc_auc_ovr"}
    dataset, model = loaded(config_from(settings))
    state = model.initial_state(seed=1)
    whole = model.evaluate(state, dataset.test)
    parts = evaluate_part(settings, state, 0, 100) + evaluate_part(settings, state, 100, len(dataset.test))
    assert not parts.scores and len(parts.outputs) == 2
    assert scores_of_test_set(settings, {}, parts.outputs) == whole.scores
    assert not whole.outputs


def test_sums_alone_keep_no_outputs():
    model = model_of(THREE, 3, "")
    assert model.evaluate_part(model.initial_state(seed=1), THREE.test).outputs == ()
    assert Evaluation({"a": 1}, 1) + Evaluation({"a": 2}, 1) == Evaluation({"a": 3}, 2)


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ("auc", r"evaluation\.scores = 'auc': scikit-learn has no scorer and no metric of this name"),
        ("roc_aucc", r"did you mean roc_auc\?"),
        ("confusion_matrix_at", "no scorer and no metric"),
        ("f1", r"evaluation\.scores = 'f1': it fails on made-up outputs .* Target is multiclass but average='binary'"),
        ("accuracy", r"evaluation\.scores = 'accuracy': it is measured anyway"),
        (f"{__name__}:train_loss", "it is measured anyway, as are train_loss"),
        ("f1_macro,f1_macro", "two scores have this name"),
        ("math:tau", "it is neither a function nor a metric, but a float"),
        ("math:tau_", "math has no tau_; did you mean tau"),
        (f"{__name__}:one_argument", "it fails on made-up outputs of shape"),
        (f"{__name__}:NAMELESS", "give a function with a name, by def"),
        ([{f"{__name__}:RightShare": {"classes": 3}}], "unexpected keyword argument 'classes'"),
    ],
)
def test_what_cannot_be_a_score_is_refused_before_round_1(scores, said):
    with pytest.raises(SettingError, match=said):
        model = model_of(THREE, 3, scores)
        assert model.metrics
        model.try_scores(torch.zeros(2, 3), rows=10)


def train_loss(outputs, targets):
    return 0.0


def one_argument(outputs):
    return 0.0


NAMELESS = lambda outputs, targets: 0.0  # noqa: E731


def test_more_memory_than_allowed_is_refused():
    with pytest.raises(SettingError, match=r"evaluation\.scores_mb = 1: the outputs of 100000 examples, 12 bytes each"):
        model_of(THREE, 3, "f1_macro", mb=1).try_scores(torch.zeros(2, 3), rows=100_000)
    model = model_of(THREE, 3, "f1_macro")
    model.scoring.most_mb = 0
    with pytest.raises(SettingError, match="need them all at once: raise it, measure fewer examples"):
        model.evaluate(model.initial_state(seed=1), THREE.test)


def test_score_that_fails_is_missing_and_a_line_says_so(caplog):
    *_, found = evaluated(THREE, 3, f"{__name__}:of_many")
    assert "of_many" not in found
    assert "evaluation.scores: of_many is missing where it fails: ValueError: too few" in caplog.text


def of_many(outputs, targets):
    raise ValueError("too few")


def test_outputs_in_a_dict_are_joined():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 3)

        def forward(self, x):
            return {"logits": self.layer(x), "loss": None, "more": (x.sum(), x)}

    model = TorchModel(
        Both, THREE.spec, Classification(THREE.spec, lambda out, y: functional.cross_entropy(out["logits"], y))
    )
    model.planned(config_from({"evaluation.scores": "f1_macro"}))
    state = model.initial_state(seed=1)
    plain = model_of(THREE, 3, "f1_macro")
    same = {name.removeprefix("layer."): array for name, array in state.items()}
    assert model.evaluate(state, THREE.test).scores == plain.evaluate(same, THREE.test).scores


def test_private_trees_keep_no_outputs():
    settings = {"data.dataset": "diabetes", "model.name": "dp-forest", "evaluation.scores": "r2"}
    with pytest.raises(SettingError, match=r"evaluation\.scores = '\[\"r2\"\]': model 'dp-forest' is no torch module"):
        trial(settings, {})


def test_objective_without_predictions_takes_functions_alone():
    assert Objective.predictions(Ranked(THREE.spec), None, None) is None


def of_chance(outputs, targets):
    outputs.zero_()
    targets.zero_()
    return float(torch.rand(1)) + float(np.random.random())


def test_function_that_writes_and_draws_changes_no_other_score_and_repeats():
    alone, with_it = (model_of(THREE, 3, names) for names in ("f1_macro", f"{__name__}:of_chance,f1_macro"))
    state = alone.initial_state(seed=1)
    first, second = (with_it.evaluate(state, THREE.test).scores for _ in range(2))
    assert first == second and first["f1_macro"] == alone.evaluate(state, THREE.test).scores["f1_macro"]


def twice_the_class(module, inputs, targets):
    """The mean over examples of twice the class where the module's guess is right."""
    assert not module.training
    return (module(inputs).argmax(1) == targets) * 2.0 * targets


def spoiling(module, inputs, targets):
    module.train()
    for parameter in module.parameters():
        parameter.zero_()
    return targets == 0


def failing(module, inputs, targets):
    return 1.0 if len(targets) > 2 else [0.0, 1.0]


@pytest.mark.parametrize("others", ["", f"{__name__}:spoiling,"])
def test_function_that_calls_the_module_is_a_mean_over_examples(others):
    logits, y, found = evaluated(THREE, 3, f"{others}{__name__}:twice_the_class")
    wanted = ((logits.argmax(1).numpy() == y) * 2.0 * y).mean()
    assert found["twice_the_class"] == pytest.approx(wanted, abs=1e-12) and wanted > 0
    assert found["accuracy"] == pytest.approx((logits.argmax(1).numpy() == y).mean())


def test_function_that_calls_the_module_keeps_no_outputs_and_adds_up():
    model = model_of(THREE, 3, f"{__name__}:twice_the_class")
    state, test = model.initial_state(seed=1), THREE.test
    assert not model.is_scored
    cut = [model.evaluate_part(state, test.at(slice(*ends))) for ends in ((0, 50), (50, len(test)))]
    assert (cut[0] + cut[1]).means == pytest.approx(model.evaluate(state, test).means, rel=1e-6)
    assert model.metrics.best_by == "twice_the_class"


def test_function_that_calls_the_module_is_tried_before_round_1_and_missing_where_it_fails_later():
    model, two = model_of(THREE, 3, f"{__name__}:{one_number.__name__}"), THREE.test.at(slice(0, 2))
    with pytest.raises(SettingError, match=r"one_number': it fails on 2 examples: .*return a number for each"):
        model.try_scores(torch.zeros(2, 3), rows=10, examples=two)
    model = model_of(THREE, 3, f"{__name__}:failing")
    model.try_scores(torch.zeros(2, 3), rows=10, examples=two)
    assert isnan(model.evaluate(model.initial_state(seed=1), THREE.test).means["failing"])


def one_number(module, inputs, targets):
    return 0.5
