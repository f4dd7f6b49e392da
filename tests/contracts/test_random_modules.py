"""Random modules are trained as torch.optim trains them, and mistakes of ours that were once made are found by them."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from fedlearn.models.torch import buffers, parts
from tests.marked import some_long
from tests.random_modules.grammar import Case

CASES, BLOCK = 100, 10  # `python -m tests.random_modules` makes 2,000
QUICK = (0,)


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("fedlearn").setLevel(logging.ERROR)
    yield
    logging.getLogger("fedlearn").setLevel(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.parametrize("first", some_long(range(0, CASES, BLOCK), *sorted({*range(0, CASES, BLOCK)} - {*QUICK})))
def test_equal_nodes_make_what_torch_makes(first, tmp_path):
    for number in range(first, first + BLOCK):
        case = Case(number)
        assert not case.wrong(tmp_path / str(number)), case


def frozen_too(module):
    return FROZEN(module) | {id(each) for name, each in module.named_parameters() if ".rare." in name}


FROZEN, KINDS = parts._frozen, buffers.kinds_of
PLANTED = {
    "shared gradients": ("client.learners.sgd.owned", list),
    "whole numbers cut": (
        "strategies.plain_flower.as_before", lambda values, before: np.asarray(values).astype(before.dtype),
    ),
    "an expert that no example reaches is frozen": ("fedlearn.models.torch.parts._frozen", frozen_too),
    "constants averaged": ("fedlearn.models.torch.torch_model.kinds_of", lambda *_: buffers.Kinds()),
    "unit vectors averaged": (
        "fedlearn.models.torch.torch_model.kinds_of", lambda *made: KINDS(*made)._replace(auxiliary=frozenset()),
    ),
}  # fmt: skip
SHOWING = {
    "shared gradients": lambda case: {"summed", "biases"} & {*case.parts} and case.optimizer == "momentum",
    "whole numbers cut": lambda case: "batch norm" in case.parts and case.way == "Flower's FedAvg" and case.number % 2,
    "an expert that no example reaches is frozen": lambda case: "experts" in case.parts and case.optimizer == "plain",
    "constants averaged": lambda case: "holding" in case.parts and case.way == "update",
    "unit vectors averaged": lambda case: "spectral norm" in case.parts and case.way in ("quantize", "secure sums"),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_mistake_is_found(mistake, tmp_path, monkeypatch):
    monkeypatch.setattr(*PLANTED[mistake])
    shown = [case for case in map(Case, range(400)) if SHOWING[mistake](case)][:4]
    assert any(differs(case, tmp_path / str(case.number)) for case in shown), shown


def differs(case, folder):
    try:
        return case.wrong(folder)
    except Exception as error:
        return str(error)
