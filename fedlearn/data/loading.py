"""From the name of a data set to its examples."""

from __future__ import annotations

from dataclasses import replace

from fedlearn.data.base import Dataset
from fedlearn.errors import DataNotFound, SettingError
from fedlearn.registry import Registry

DATASETS = Registry(
    "data.dataset",
    {
        "auto": "fedlearn.data.loading:load_auto",
        "cifar10": "fedlearn.data.cifar10:load",
        "digits": "fedlearn.data.digits:load",
    },
)


def load_dataset(name: str, data_dir: str) -> Dataset:
    """Return a data set.

    Parameters
    ----------
    name
        A name in `DATASETS`, or ``module:callable``; the callable takes `data_dir` and returns a
        `Dataset`.
    data_dir
        The setting ``data.dir``: the folder of data sets; empty means FEDLEARN_DATA.
    """
    loaded = DATASETS.load(name)(data_dir)
    if not isinstance(loaded, Dataset):
        wanted = "it must return a fedlearn.data.Dataset"
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
