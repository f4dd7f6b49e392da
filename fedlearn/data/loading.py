"""From the name of a data set to its examples."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from fedlearn import plugins
from fedlearn.data.dataset import Dataset
from fedlearn.data.folder import no_downloads
from fedlearn.data.sources.paths import from_path, is_path
from fedlearn.plugging.options import options_for
from fedlearn.plugging.registry import Registry, call_plugin
from fedlearn.words.errors import DataNotFound, SettingError

DATASETS = Registry(
    "data.dataset",
    plugins.DATASETS,
)


def load_dataset(name: str, data_dir: str, *, offline: bool = False, options: str = "") -> Dataset:
    """Return a data set.

    Parameters
    ----------
    name
        A name in `DATASETS`; the path of a folder or file (see `fedlearn.data.sources.paths`), of a TOML file that
        describes a table (see `tables.py`); ``hub:NAME`` on the Hugging Face Hub; or ``module:name`` of a `Dataset`
        or of a callable that takes `data_dir` and returns one.
    data_dir
        The setting ``data.dir``: the folder of data sets; empty means FEDLEARN_DATA.
    offline
        Refuse to download: what is neither in the folder nor in the cache is not found. A loader from outside takes
        part if it asks `fedlearn.data.folder.check_download`.
    options
        The text of ``data.options``: keyword parameters of what reads the data.
    """
    given: dict[str, Any] = json.loads(options or "{}")
    with no_downloads() if offline else nullcontext():
        if name not in DATASETS and is_path(name):
            return from_path(name, data_dir, given)
        loaded = DATASETS.load(name)
        if isinstance(loaded, Dataset):
            if given:
                raise SettingError("data.options", given, f"{name} is a data set already: it takes none")
        else:
            needed = options_for(loaded, given, setting="data.options", reserved=("data_dir",))
            loaded = call_plugin("data.dataset", name, loaded, data_dir, **needed)
    if not isinstance(loaded, Dataset):
        wanted = "it must be or return a fedlearn.data.Dataset"
        raise SettingError("data.dataset", name, f"{wanted}, not {type(loaded).__name__}")
    return loaded


def load_auto(data_dir: str) -> Dataset:
    """Return CIFAR-10 or, where there is none at all, the digits with a notice.

    A CIFAR-10 that is there but broken stays an error.
    """
    from fedlearn.data import cifar10, digits

    try:
        return cifar10.load(data_dir)
    except DataNotFound as error:
        instead = "USING THE SMALL DATA SET 'digits' INSTEAD OF CIFAR-10, of which it says nothing."
        return replace(digits.load(data_dir), notice=f"{instead} {error}")


def load_auto_regression(data_dir: str) -> Dataset:
    """Return California Housing or, where there is none at all, the diabetes patients with a notice."""
    from fedlearn.data import california, diabetes

    try:
        return california.load(data_dir)
    except DataNotFound as error:
        instead = "USING THE SMALL DATA SET 'diabetes' INSTEAD OF CALIFORNIA HOUSING, of which it says nothing."
        return replace(diabetes.load(data_dir), notice=f"{instead} {error}")
