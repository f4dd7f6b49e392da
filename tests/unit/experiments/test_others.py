"""The references beside which algorithms of other frameworks are held: where they end on two quadratics."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.others.krum import exact_choice, flowers_choice
from experiments.others.quadratic import printed_feddyn, printed_fednova, printed_scaffold


def test_scaffold_and_feddyn_as_printed_end_at_the_optimum():
    assert printed_scaffold(60)[-1] == pytest.approx(7.5, abs=1e-9)
    assert printed_feddyn(400)[-1] == pytest.approx(7.5, abs=1e-6)


def test_fednova_as_printed_removes_the_bias_of_unequal_steps_and_not_the_drift():
    assert printed_fednova(200)[-1] == pytest.approx(6.222763, abs=1e-6)
    assert printed_fednova(200, steps=(1, 1))[-1] == pytest.approx(7.5)


def test_krum_takes_one_node_by_both_distances_where_changes_are_large():
    rng = np.random.default_rng(1)
    changes = rng.normal(0, 1, (10, 50)) * np.linspace(1, 2, 10)[:, None]
    assert flowers_choice(list(changes.astype(np.float32))) == exact_choice(changes)
