"""Distributed noise under secure sums: the bytes of the trusted simulation, and noise enough in what is unmasked."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file

from client.node_ledger import run_of
from fedlearn.core.errors import SettingError
from fedlearn.data import load_dataset
from fedlearn.models import load_model
from fedlearn.models.presets import settings_from
from fedlearn.privacy.honest_count import honest_shares
from tests.end_to_end.conftest import some_slow
from tests.end_to_end.test_sums import BAYES, BOOSTING, NUMBERS

SHARED = {
    **BAYES, "privacy.trust": "distributed", "secure.dropouts": 0.1, "rounds.quorum": 0.8, "rounds.minimum_ready": 0.8,
}  # fmt: skip


SETTINGS = {
    "bayes": SHARED,
    "boosting": {**NUMBERS, "privacy.trust": "distributed"},
    "local bayes": BAYES,
    "local boosting": BOOSTING,
}


@pytest.mark.parametrize("settings", some_slow(SETTINGS, ["local bayes"], long=["bayes", "boosting", "local boosting"]))
def test_masked_sums_have_the_bytes_of_the_trusted_simulation(execute, settings):
    plain = execute({**settings, "secure.sums": "off"}, engine="inline")
    for sums in ("masked", "unmasked"):
        run = execute({**settings, "secure.sums": sums}, engine="inline")
        assert run.sha == plain.sha
        assert run.summary["epsilon"] == plain.summary["epsilon"] == 1.0


def test_secure_noise_is_taken_where_masks_hide_its_shares(execute):
    run = execute({**SHARED, "secure.sums": "masked", "privacy.noise": "secure"}, engine="inline")
    assert run.summary["status"] == "completed"
    assert run.summary["epsilon"] == 1.0
    assert "seeded" not in run.summary["noise_notice"]
    assert "where nobody sees less than a sum of 5 reports" in run.summary["noise_notice"]


def test_shares_are_calibrated_without_those_of_colluders(execute):
    alone = execute({**SHARED, "secure.sums": "masked"}, engine="inline")
    beside = execute({**SHARED, "secure.sums": "masked", "secure.colluders": 2}, engine="inline")
    assert alone.sha != beside.sha
    assert "of which 2 clients may tell their own noise" in beside.summary["noise_notice"]
    with pytest.raises(SettingError, match=r"secure\.colluders = 5.*no noise is left"):
        honest_shares(settings_from({**SHARED, "secure.sums": "masked", "secure.colluders": 5}))


@pytest.mark.parametrize(
    ("further", "setting"),
    [({"secure.group_size": 3}, "secure.group_size"), ({"privacy.public_sizes": True}, "privacy.public_sizes")],
)
def test_what_shares_of_noise_cannot_have_is_refused(execute, further, setting):
    with pytest.raises(SettingError, match=setting):
        execute({**SHARED, "secure.sums": "masked", **further}, engine="inline")


@pytest.mark.parametrize(
    "other", [{"rounds.quorum": 0.9}, {"secure.colluders": 1}, {"out": "elsewhere"}, {"secure.sums": "unmasked"}]
)
def test_a_share_of_noise_is_of_one_run_folder_and_of_one_smallest_sum(other):
    """Asked for it with another quorum, or in another run, a node pays anew: it draws another share."""
    shared = {**SHARED, "secure.sums": "masked"}
    assert run_of(settings_from(shared)) != run_of(settings_from({**shared, **other}))
    local = {**BAYES, "privacy.trust": "local"}
    if "secure.colluders" not in other:
        assert run_of(settings_from(local)) == run_of(settings_from({**local, "out": "elsewhere"}))


def test_the_sum_of_secure_shares_has_the_noise_of_one_node(execute):
    """Two runs differ by two such noises: the mean size of their difference is 1.5 scales."""
    settings = {**SHARED, "secure.sums": "masked", "privacy.noise": "secure", "rounds.quorum": 1.0, "clients": 5}
    settings |= {"rounds.minimum_ready": 1.0, "privacy.epsilon": 0.1}
    one, other = (
        load_file(execute({**settings, "out": out}, engine="inline").folder / "model.safetensors")["sums"]
        for out in ("", "")
    )
    model = load_model("dp-naive-bayes", load_dataset(settings["data.dataset"], "").spec, "")
    scale = model.planned(settings_from(settings)).unit(1) / 0.1
    assert len(one) > 100
    assert 1.2 < np.abs(one - other).mean() / scale < 1.8


def test_a_draw_that_may_be_smaller_than_the_noise_is_made_for_is_refused(execute):
    """With the Poisson selector no quorum holds, so that a sum of fewer shares would be committed."""
    with pytest.raises(SettingError, match=r"privacy\.trust = 'distributed'.*a draw may be smaller"):
        execute({**SHARED, "rounds.selector": "poisson", "rounds.cohort": 3}, engine="inline")
