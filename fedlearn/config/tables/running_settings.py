"""Settings of running: devices of virtual nodes, and the engine."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, field_validator

from fedlearn.config.fields import Options, Settings
from fedlearn.config.marks import AlsoCalled, Flag, FreeToChange, Moved, Panel, ReadBy, ReadIf

DEVICE_SETTING = "engine.device"
DEVICE = re.compile(r"cpu|mps|auto|cuda(:\d{1,3})?")


def kind_of_device(device: str) -> str:
    """Return the kind of a device. Devices of one kind compute the same bytes.

    >>> kind_of_device("cuda:1")
    'cuda'
    """
    return device.partition(":")[0]


class DeviceSettings(Settings):
    """Settings of the devices of virtual nodes; with devices, every deadline and pause is in virtual time."""

    name: Annotated[str, Flag("--devices", "NAME", Panel.RUNNING)] = Field(
        default="",
        description=(
            "{names}; a .csv, .parquet or .toml file of devices; or module:function that returns a "
            "fedlearn.devices.Fleet. Empty: clients take no virtual time, and a simulation uses the wall clock."
        ),
    )
    options: Options = Field(default="", description="Keyword parameters of the devices, such as dropout of phones.")
    sha256: str = Field(default="", description="Set by the program: SHA-256 of the file of devices.")


class EngineSettings(Settings):
    """Settings of how a run is executed; of these the kind of device alone changes the result."""

    name: Annotated[str, Flag("--engine", "NAME", Panel.RUNNING), AlsoCalled({"engine"}), FreeToChange()] = Field(
        default="embedded",
        description=(
            "embedded: worker processes and shared memory; inline: one process, for a debugger; ray: Flower's "
            "Simulation Runtime, here or on a cluster."
        ),
    )
    workers: Annotated[
        int,
        Field(ge=0, le=4096),
        Flag("--workers", "N", Panel.RUNNING),
        ReadIf("engine.name", ("embedded", "ray"), or_foreign=True),
        FreeToChange(),
    ] = Field(
        default=0,
        description=(
            "embedded: worker processes, one thread each; 0 starts one for each core. ray: clients that run at "
            "the same time; 0 as many as fit."
        ),
    )
    options: Annotated[
        Options,
        Moved({name: f"engine.options.{name}" for name in ("address", "client_cpus", "client_gpus")}),
        FreeToChange(),
    ] = Field(
        default="",
        description=(
            "Keyword parameters of the engine. ray: address, HOST:PORT of a running cluster (default: one on this "
            "machine, for this run); client_cpus and client_gpus, cores (1) and GPUs (0), or a share of one, "
            "reserved for each running client; with device = cuda it trains on them."
        ),
    )
    device: Annotated[str, ReadBy.TORCH] = Field(
        default="cpu",
        description=(
            "Device of torch modules: cpu, cuda, cuda:1, mps; auto takes the first available of cuda, mps and "
            "cpu. Each kind gives different bytes. The owner of a client on a network chooses its device."
        ),
    )

    @field_validator("device")
    @classmethod
    def _is_a_device(cls, value: str) -> str:
        if not DEVICE.fullmatch(value):
            raise ValueError("write cpu, cuda, cuda:1 and so on, mps or auto")
        return value
