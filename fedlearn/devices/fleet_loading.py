"""From a name to a fleet: by the table of devices, a user's file, or code from outside."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedlearn.config.tables.running_settings import DeviceSettings
from fedlearn.core.errors import SettingError, quoted, said
from fedlearn.devices.fleet import Fleet
from fedlearn.devices.fleet_files import fleet_from, is_file
from fedlearn.plugins import tables
from fedlearn.plugins.options import options_for
from fedlearn.plugins.registry import Registry, call_plugin

DEVICES = Registry(
    "devices.name",
    tables.DEVICES,
    asks=("__call__",),
)
"""Functions of (clients, seed, examples, **options) that return a `Fleet`."""

GIVEN = ("clients", "seed", "examples")  # parameters that are not the user's to choose


def load_devices(settings: DeviceSettings, *, clients: int, seed: int, examples: NDArray[np.int64]) -> Fleet:
    """Return the devices of a run.

    Parameters
    ----------
    examples
        How many examples each node trains on, shape (clients,).

    Raises
    ------
    SettingError
        In one line, where there are no such devices, or their numbers are impossible.
    """
    name = settings.name
    if is_file(name):
        if settings.options:
            raise SettingError(
                "devices.options",
                settings.options,
                "a file of devices takes no options: write the numbers into the file",
            )
        return _from_file(name, clients=clients, seed=seed)
    make = DEVICES.load(name)
    options = options_for(make, settings.options, setting="devices.options", reserved=GIVEN)
    fleet = call_plugin("devices.name", name, make, clients=clients, seed=seed, examples=examples, **options)
    if not isinstance(fleet, Fleet) or len(fleet) != clients:
        raise SettingError(
            "devices.name", name, f"it returned {quoted(type(fleet))}, expected a Fleet of {clients} clients"
        )
    return fleet


def with_fingerprint(settings: DeviceSettings) -> DeviceSettings:
    """Return the settings with the SHA-256 of the file that they name, so that a resume has the same devices.

    Raises
    ------
    SettingError
        If the settings have a SHA-256 already, and the file has another one.
    """
    if not is_file(settings.name):
        return settings
    path = Path(settings.name).expanduser().absolute()
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise _unreadable(settings.name, error) from None
    if settings.sha256 not in ("", found):
        raise SettingError(
            "devices.sha256", settings.sha256,
            f"{path} holds other devices now (SHA-256 {found}): put back the file that the run was begun with",
        )  # fmt: skip
    return settings.model_copy(update={"name": str(path), "sha256": found})


def _from_file(name: str, *, clients: int, seed: int) -> Fleet:
    try:
        return fleet_from(Path(name), clients=clients, seed=seed)
    except OSError as error:
        raise _unreadable(name, error) from None
    except (ValueError, OverflowError) as error:
        raise SettingError("devices.name", name, said(error)) from None


def _unreadable(name: str, error: OSError) -> SettingError:
    names = ", ".join(tables.DEVICES)
    return SettingError("devices.name", name, f"{error.strerror}: name a TOML file of devices, or one of {names}")
