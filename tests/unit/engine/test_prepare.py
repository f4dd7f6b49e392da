"""The data set that was found replaces the one that was asked for, with a notice where they differ."""

from __future__ import annotations

from fedlearn.config import config_from
from fedlearn.models.loaded import with_found_data


def test_without_cifar10_the_settings_name_digits_and_say_so(tmp_path):
    found = with_found_data(config_from({"data.dataset": "auto", "data.dir": str(tmp_path)}))
    assert found.data.dataset == "digits"
    assert "INSTEAD OF CIFAR-10" in found.data.notice


def test_a_data_set_that_is_there_needs_no_notice():
    found = with_found_data(config_from({"data.dataset": "digits"}))
    assert (found.data.dataset, found.data.notice) == ("digits", "")
