"""What is sent of a model: the same bytes on every engine and after a resume, and the algorithms by their names."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fedlearn
from fedlearn.core.errors import UsageError
from tests.end_to_end.conftest import CHEAP

TWOS = {
    "evaluation.nodes": 12, "data.node_test_share": 0.25, "data.partition": "pathological", "rounds.cohort": 0,
    "training.batch_size": 10, "training.lr": 0.01,
}  # fmt: skip
HEAD, BACKBONE = 10_280, 67_000  # bytes


class Normed(nn.Module):
    """Few numbers, with a batch norm whose name begins with `norm`."""

    def __init__(self):
        super().__init__()
        self.shrink = nn.Sequential(nn.AvgPool2d(4), nn.Flatten())
        self.body, self.norm, self.head = nn.Linear(192, 8), nn.BatchNorm1d(8), nn.Linear(8, 10)

    def forward(self, x):
        return self.head(self.norm(self.body(self.shrink(x))).relu())


def frozen():
    """Return a head under a frozen backbone."""
    body = nn.Sequential(nn.Linear(192, 64), nn.BatchNorm1d(64), nn.Linear(64, 256)).requires_grad_(False)
    return nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), body, nn.Linear(256, 10))


def run(**keywords):
    return fedlearn.run(**{"data": "digits", "progress": False, "engine": "inline", **keywords})


@pytest.mark.parametrize("layer", ["head", "norm"], ids=["FedPer", "FedBN"])
def test_personal_layers_by_setting_are_those_of_the_guest(tmp_path, layer, monkeypatch):
    monkeypatch.syspath_prepend("tests/end_to_end/plugins")
    from fedper import FedPer

    shape = {name: each for name, each in CHEAP.items() if name != "data.dataset"}
    given = {"model": Normed, "settings": {**shape, **TWOS}}
    guest = run(**given, out=str(tmp_path / "guest"), learner=FedPer, **{"training.options": {"layer": layer}})
    ours = run(**given, out=str(tmp_path / "setting"), **{"training.personal": layer})
    assert ours.sha256 == guest.sha256
    assert ours.nodes.equals(guest.nodes)
    assert ours.summary["bytes_up"] < guest.summary["bytes_up"]


@pytest.fixture(scope="module")
def head(tmp_path_factory):
    torch.manual_seed(1)
    return run(clients=4, model=frozen, rounds=3, out=str(tmp_path_factory.mktemp("head") / "run"))


def test_head_under_a_frozen_backbone_costs_the_bytes_of_the_head(head):
    module = head.model()
    assert sum(each.numel() * 4 for each in module[2].parameters()) > BACKBONE
    assert sum(each.numel() * 4 for each in module[3].parameters()) == HEAD
    assert HEAD < head.summary["bytes_up"] / (3 * 4) < 11_500
    assert head.summary["bytes_down"] / (3 * 4) < 11_500
    assert head.summary["notices"][0].startswith("2,570 entries of the model are sent")


def test_files_of_a_run_hold_the_whole_model(head):
    assert head.model().state_dict().keys() == head.state.keys() == frozen().state_dict().keys()
    assert head.evaluate() == {name: head.summary[name] for name in ("loss", "accuracy")}


@pytest.mark.parametrize("workers", [1, 2])
def test_head_has_the_same_bytes_with_workers(head, workers, tmp_path):
    settings = {"engine.workers": workers}
    again = run(clients=4, model=frozen, rounds=3, engine="embedded", settings=settings, out=str(tmp_path / "run"))
    assert (again.sha256, again.summary["bytes_up"]) == (head.sha256, head.summary["bytes_up"])


def test_head_has_the_same_bytes_after_a_resume(head, tmp_path):
    half = run(clients=4, model=frozen, rounds=1, out=str(tmp_path / "run"))
    assert run(resume=half, rounds=3, data=None, engine=None).sha256 == head.sha256


def test_resume_with_other_frozen_weights_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    monkeypatch.syspath_prepend("tests/end_to_end/plugins")
    monkeypatch.setenv("PRETRAINED", "0.5")
    run(clients=2, model="pretrained:net", rounds=1, out=str(folder))
    monkeypatch.setenv("PRETRAINED", "0.6")
    with pytest.raises(UsageError, match=r"begun with other numbers in 2\.bias, which is never sent"):
        run(resume=folder, rounds=2, data=None, engine=None)


def test_module_with_its_weights_has_the_same_bytes_with_workers(tmp_path):
    torch.manual_seed(5)
    module = frozen()
    one, other = (
        run(clients=4, model=module, rounds=1, engine=engine, out=str(tmp_path / engine))
        for engine in ("inline", "embedded")
    )
    assert one.sha256 == other.sha256
    assert torch.equal(one.model()[2][0].weight, module[2][0].weight)


def test_run_begins_from_the_whole_model_of_another(head, tmp_path):
    more = run(clients=4, model=head.model(), rounds=1, strategy="fedadam", out=str(tmp_path / "run"))
    assert torch.equal(more.model()[2][0].weight, head.model()[2][0].weight)
    assert more.summary["accuracy"] > 0.8


def test_secure_sum_is_of_what_is_sent_alone(tmp_path):
    settings = {"training.send": "body, head", "training.personal": "head", "compression.send": "update"}
    given = {"clients": 6, "model": Normed, "rounds": 1, "cohort": 0}
    masked, unmasked = (
        run(**given, settings={**settings, "secure.sums": sums}, out=str(tmp_path / sums))
        for sums in ("masked", "unmasked")
    )
    assert masked.sha256 == unmasked.sha256
    layers = dict(Normed().named_parameters())
    assert (
        masked.summary["bytes_up"] / 6 < 8 * sum(layers[f"body.{name}"].numel() for name in ("weight", "bias")) + 3_000
    )
