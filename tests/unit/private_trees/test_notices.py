"""Each estimator states the notice of a fit under one name."""

from __future__ import annotations

import pytest

from fedlearn.private_trees.domain import NotPrivateWarning
from tests.unit.private_trees.test_hostile_cells import NAMES, data, made


@pytest.mark.parametrize("name", NAMES)
def test_seeded_noise_is_said_beside_every_fit_and_secure_noise_needs_no_word(name):
    seeded, secure = made(name), made(name).set_params(noise="secure", random_state=None)
    assert "protects nobody" in seeded.fit(*data(seeded)).notice_
    assert secure.fit(*data(secure)).notice_ == ""


def test_a_classifier_that_reads_its_declaration_from_the_data_says_so():
    model = made("DPClassificationTree").set_params(categories=None, classes=None, bounds_from_data=True)
    with pytest.warns(NotPrivateWarning):
        model.fit(*data(model))
    assert "NOT PRIVATE" in model.notice_
