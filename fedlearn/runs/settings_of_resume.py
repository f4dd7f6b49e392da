"""Tell which settings a run has to keep, and which a resumed run may change."""

from __future__ import annotations

from fedlearn.config import RunConfig, names, to_flower
from fedlearn.config.tables.running_settings import DEVICE_SETTING, kind_of_device
from fedlearn.data.naming import HUB, is_map, is_path
from fedlearn.devices.fleet_files import is_file
from fedlearn.models import model_spec
from fedlearn.runs.manifest import Setting


def kept_settings(config: RunConfig) -> dict[str, Setting]:
    """Return the settings that a run has to keep: all but those that are free to change and places of files.

    A study may be moved or copied: the content of its files is identified by the fingerprint of the data and by
    ``devices.sha256``.
    """
    free = free_to_change(config)
    return {
        name: kept(name, value)
        for name, value in to_flower(config).items()
        if name not in free and not is_place(name, value)
    }


def is_place(name: str, value: Setting) -> bool:
    """Return whether a setting is the path of a file or folder that a run reads."""
    if name == "data.dataset":
        return is_path(str(value)) and not str(value).startswith(HUB)
    return (
        name == "model.initial"
        or (name == "data.partition" and is_map(str(value)))
        or (name == "devices.name" and is_file(str(value)))
    )


def kept(name: str, value: Setting) -> Setting:
    """Return the part of a setting that a run keeps: the kind of a device (``cuda:1`` -> ``cuda``), else the value.

    ``training.stack`` of 0 and 1 make the same bytes.
    """
    if name == "training.stack":
        return max(int(value), 1)
    return kind_of_device(str(value)) if name == DEVICE_SETTING else value


def free_to_change(config: RunConfig) -> set[str]:
    """Return the settings that a resumed run may change; not its number of rounds if noise is calibrated to it."""
    by_rounds = config.protects_records and not config.privacy.participations
    divides = model_spec(config.model.name).is_planned or by_rounds or config.nodes_add_noise
    return names.free_to_change() - ({"rounds.total"} if divides else set())
