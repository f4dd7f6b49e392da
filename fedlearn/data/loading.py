"""From the name of a data set to its examples."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from fedlearn.core.errors import DataNotFound, SettingError
from fedlearn.data.data_folder import no_downloads
from fedlearn.data.dataset import Dataset
from fedlearn.data.naming import is_path
from fedlearn.data.sources.paths import from_path
from fedlearn.plugins import tables
from fedlearn.plugins.options import options_for
from fedlearn.plugins.registry import Registry, call_plugin

DATASETS = Registry(
    "data.dataset",
    tables.DATASETS,
    others="a file, a folder, hub:NAME of the Hugging Face Hub or module:attribute",
)


def load_dataset(name: str, data_dir: str, *, offline: bool = False, options: str = "") -> Dataset:
    """Return the data set that a name, a path or a reference names.

    Parameters
    ----------
    name
        A name in `DATASETS`; the path of a folder or file (see `fedlearn.data.sources.paths`), or of a TOML file that
        declares a table (see `schema_file.py`); ``hub:NAME`` on the Hugging Face Hub; or ``module:name`` of a `Dataset`
        or of a callable that takes `data_dir` and returns one, or of what `from_any` takes.
    data_dir
        The setting ``data.dir``: the folder of data sets; empty means FEDLEARN_DATA.
    offline
        Whether to refuse downloads: data that are neither in the folder nor in the cache are not found. A loader from
        outside refuses, too, if it calls `fedlearn.data.data_folder.check_download`.
    options
        The text of ``data.options``: keyword parameters of the function that reads the data.

    Raises
    ------
    SettingError
        If an option is wrong, or what `name` names is or returns no data set.
    DataNotFound, UsageError
        If the data are not there, or wrong.
    """
    given: dict[str, Any] = json.loads(options or "{}")
    with no_downloads() if offline else nullcontext():
        if name not in DATASETS and is_path(name):
            return from_path(name, data_dir, given)
        loaded = DATASETS.load(name)
        if isinstance(loaded, Dataset) or not callable(loaded):
            if given:
                raise SettingError("data.options", given, f"{name} is a data set already: it takes none")
        else:
            needed = options_for(loaded, given, setting="data.options", reserved=("data_dir",))
            loaded = call_plugin("data.dataset", name, loaded, data_dir, **needed)
    if isinstance(loaded, Dataset):
        return loaded
    from fedlearn.data.sources.from_any import brought

    found = brought(loaded, name=name)
    if not found.nodes:
        return found.dataset()
    nodes = (
        f"data are given for {len(found.nodes)} clients: --partition natural --clients {len(found.nodes)} keeps them so"
    )
    return replace(found, said=(*found.said, nodes)).dataset()


def load_auto(data_dir: str) -> Dataset:
    """Return CIFAR-10; if it is not there, the digits with a notice.

    A CIFAR-10 that is there but broken stays an error.
    """
    from fedlearn.data import cifar10, digits

    try:
        return cifar10.load(data_dir)
    except DataNotFound as error:
        instead = "USING THE SMALL DATA SET 'digits' INSTEAD OF CIFAR-10, of which it says nothing."
        return replace(digits.load(data_dir), notice=f"{instead} {error}")


def load_auto_regression(data_dir: str) -> Dataset:
    """Return California Housing; if it is not there, the diabetes patients with a notice."""
    from fedlearn.data import california, diabetes

    try:
        return california.load(data_dir)
    except DataNotFound as error:
        instead = "USING THE SMALL DATA SET 'diabetes' INSTEAD OF CALIFORNIA HOUSING, of which it says nothing."
        return replace(diabetes.load(data_dir), notice=f"{instead} {error}")
