"""Devices: how fast a node computes and sends, when it can be reached, how often its training is lost."""

from __future__ import annotations

from fedlearn.devices.fleet import DAY, Fleet
from fedlearn.devices.fleet_loading import DEVICES, load_devices, with_fingerprint

__all__ = ["DAY", "DEVICES", "Fleet", "load_devices", "with_fingerprint"]
