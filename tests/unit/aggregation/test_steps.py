"""Fold steps: what one node's update goes through before it is added up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.aggregation import STATE, Fold, ParcelPlan, StepSpec
from fedlearn.aggregation.steps import FOLD_STEPS, ClippedTo, load_step, steps_of
from fedlearn.config.tables.reports import StrategySettings
from fedlearn.core.errors import SettingError
from fedlearn.core.state import Entries
from tests.oracles.cohorts import made_cohort, made_report, made_state, plan_for, verdict_of

OPTIONS = {"clip": {"norm": 0.5}}  # of steps that cannot do without, or do more with them; any other takes none
MEAN = "strategies.masked_mean:MaskedSum"


def norm_of(update):
    return np.sqrt(sum(np.sum(e.values.astype(np.float64) ** 2) for e in update.values() if e.values.dtype.kind == "f"))


@given(seed=st.integers(0, 2**32 - 1), norm=st.floats(1e-3, 1e3))
def test_clipping_keeps_the_direction_and_what_is_short_enough(seed, norm):
    rng = np.random.default_rng(seed)
    positions = np.array([0, 2, 5])
    update = {
        "w": Entries(rng.normal(0, 10, 3).astype(np.float32), positions),
        "b": Entries(rng.normal(0, 10, 4)),
        "n": Entries(np.array([9])),
    }
    weight, clipped = ClippedTo(norm=norm)(7, update)
    assert weight == 7
    assert norm_of(clipped) <= norm * (1 + 1e-6)
    assert clipped["w"].positions is positions  # a null entry stays null
    assert clipped["n"].values.tolist() == [9]
    factor = min(1.0, norm / norm_of(update))
    for name in ("w", "b"):
        np.testing.assert_allclose(clipped[name].values, update[name].values * factor, rtol=1e-5)
    if norm_of(update) <= norm:
        assert all(clipped[name] is update[name] for name in update)


def test_steps_run_in_the_order_in_which_they_are_named():
    settings = StrategySettings.model_validate({"steps": '{"z:Last": {}, "clip": {"norm": 2}}'})
    assert [spec.reference for spec in steps_of(settings.steps)] == ["z:Last", "clip"]


def test_a_step_is_applied_to_each_node_before_the_sum():
    rng = np.random.default_rng(2)
    state = made_state(rng)
    verdicts = [verdict_of(r, p) for p, r in enumerate(made_cohort(rng, state, size=4, density=1.0)) if r]
    plan = plan_for(MEAN, state, uniform=True)
    clip = StepSpec("clip", {"norm": 0.5})
    whole = plan.parcels[STATE]
    clipping = replace(plan, parcels={STATE: ParcelPlan(whole.layout, MEAN, uniform=True, steps=(clip,))})
    by_hand = Fold(plan).empty()[STATE]
    by_hand.add([ClippedTo(norm=0.5)(1, verdict.parcels[STATE]) for verdict in verdicts])
    found = Fold(clipping).of(verdicts)[STATE]
    assert {n: a.tobytes() for n, a in found.to_arrays().items()} == {
        n: a.tobytes() for n, a in by_hand.to_arrays().items()
    }


@pytest.mark.parametrize("name", FOLD_STEPS)
@given(seed=st.integers(0, 2**32 - 1), density=st.sampled_from([0.0, 0.3, 1.0]))
def test_every_step_leaves_null_entries_null_and_what_came_as_it_was(name, seed, density):
    rng = np.random.default_rng(seed)
    update = made_report(rng, made_state(rng), density).update()
    for entries in update.values():
        entries.values.flags.writeable = False  # whoever writes, raises
    weight, stepped = load_step(StepSpec(name, OPTIONS.get(name, {})))(7, dict(update))
    assert np.isfinite(weight)
    assert stepped.keys() == update.keys()
    for parameter, entries in stepped.items():
        np.testing.assert_array_equal(entries.positions, update[parameter].positions)
        assert entries.values.shape == update[parameter].values.shape
        assert entries.values.dtype == update[parameter].values.dtype
        assert np.isfinite(entries.values).all()


@pytest.mark.parametrize("name", FOLD_STEPS)
def test_every_step_of_the_table_says_what_it_does(name):
    assert FOLD_STEPS.load(name).__doc__


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (StepSpec("clipp", {}), "choose one of clip"),
        (StepSpec("clip", {"norm": 0}), r"strategy\.steps\.clip\.norm = 0: expected a number above 0"),
        (StepSpec("clip", {"nrm": 1}), "did you mean norm"),
    ],
)
def test_a_step_that_cannot_be_made_is_one_line(spec, said):
    with pytest.raises(SettingError, match=said):
        load_step(spec)


def test_options_that_are_no_table_are_one_line():
    with pytest.raises(SettingError, match=r"strategy\.steps\.clip = 3: write it as a table"):
        steps_of('{"clip": 3}')
