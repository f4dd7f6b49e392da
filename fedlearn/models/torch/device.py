"""Devices of torch modules: ``engine.device``.

The kind of device (cpu, cuda, mps) is part of a run's identity, as each kind adds in another order. On one kind the
same seed gives the same bytes, as long as card and versions stay the same: torch is restricted to deterministic
algorithms, without TF32 in place of float32, and without attention kernels whose sums depend on timing. For a layer
without a deterministic algorithm torch raises an error, which the trial step before the first round shows. For ``mps``
torch promises less, and so do we.
"""

from __future__ import annotations

import os
import warnings

import torch

from fedlearn.config.tables.running_settings import DEVICE_SETTING
from fedlearn.core.errors import SettingError

CPU = torch.device("cpu")
CUBLAS_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"  # without it the order of cuBLAS's sums varies

_is_strict = False


def device_of(name: str) -> torch.device:
    """Return the device of a name; for ``auto`` the first available one of cuda, mps and cpu.

    Raises
    ------
    SettingError
        If this machine has no such device.
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
    """Return the number of devices of a kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a driver that is too old: the caller reports that there is no device
        if kind == "cuda":
            return torch.cuda.device_count() if torch.cuda.is_available() else 0
        return int(kind == "cpu" or torch.backends.mps.is_available())


def enter(device: torch.device) -> None:
    """Set torch in this process to compute deterministically on a device; for the CPU, undo these settings."""
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
        torch.cuda.set_device(device.index or 0)
        warnings.filterwarnings("ignore", "RNN module weights")  # cuDNN copies them: they lie among all parameters


def seed_torch(device: torch.device, seed: int) -> None:
    """Seed torch's generators: that of the CPU, which augmentation draws from, and that of the device.

    This is not `torch.manual_seed`, which also queues the seed, with a stack trace, for every missing accelerator.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)
