"""Where torch modules are computed: ``engine.device``.

A kind of device (cpu, cuda, mps) is part of what a run is: each adds in an order of its own. On one kind the same seed
gives the same bytes, as long as card and versions stay the same: torch then takes deterministic algorithms alone, no
TF32 in place of float32, and no attention kernel whose sums depend on time. Where it has none for a layer it raises:
the trial step before the first round says so. Of ``mps`` torch promises less, and so do we.
"""

from __future__ import annotations

import os
import warnings

import torch

from fedlearn.config.tables.running import DEVICE_SETTING
from fedlearn.words.errors import SettingError

CPU = torch.device("cpu")
CUBLAS_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"  # without it cuBLAS adds in the order of its streams

_is_strict = False


def device_of(name: str) -> torch.device:
    """Return the device of a name; of ``auto`` the first of cuda, mps and cpu that there is.

    Raises
    ------
    SettingError
        Where there is no such device here.
    """
    if name == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if _count(kind)))
    device = torch.device(name)
    count = _count(device.type)
    if (device.index or 0) >= count:
        found = f"torch finds {count} here, counted from cuda:0" if count else f"torch finds no {device.type} here"
        raise SettingError(DEVICE_SETTING, name, f"{found}: take another, 'auto', or 'cpu'")
    return device


def _count(kind: str) -> int:
    """Return how many devices of a kind there are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a driver that is too old: it is said that there is none
        if kind == "cuda":
            return torch.cuda.device_count() if torch.cuda.is_available() else 0
        return int(kind == "cpu" or torch.backends.mps.is_available())


def enter(device: torch.device) -> None:
    """Have this process compute on a device, the same each time; on the CPU everything is as it was."""
    global _is_strict
    wanted = device.type != "cpu"
    if wanted or _is_strict:
        os.environ.setdefault(CUBLAS_WORKSPACE, ":4096:8")
        torch.use_deterministic_algorithms(wanted)
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cuda.enable_flash_sdp(not wanted)
        torch.backends.cuda.enable_mem_efficient_sdp(not wanted)
    _is_strict = wanted
    if device.type == "cuda":
        torch.cuda.set_device(device)


def seed_torch(device: torch.device, seed: int) -> None:
    """Put torch's generators where a seed says: that of the CPU, which augmentation draws from, and the device's.

    Not `torch.manual_seed`: it also queues the seed, with a stack trace, for every accelerator that is not there.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)
