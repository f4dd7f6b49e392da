"""Settings of running: devices of virtual nodes, and the engine."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, field_validator

from fedlearn.config.fields import Options, Settings
from fedlearn.config.marks import AlsoCalled, Flag, Moved, Panel, ReadBy, ReadIf

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
            "fedlearn.devices.Fleet. Empty: nodes take no time, and a simulation goes by the wall clock."
        ),
    )
    options: Options = Field(
        default="", description="The devices' own, keyword parameters of what makes them, as dropout of phones."
    )
    sha256: str = Field(default="", description="Set by the program: that of the file of devices.")


class EngineSettings(Settings):
    """Settings of how a run is executed; of these the kind of device alone changes the result."""

    name: Annotated[str, Flag("--engine", "NAME", Panel.RUNNING), AlsoCalled({"engine"})] = Field(
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
    ] = Field(
        default=0,
        description=(
            "embedded: worker processes, one thread each; 0 starts one for each core. ray: clients that run at the "
            "same time; 0 as many as fit."
        ),
    )
    options: Annotated[
        Options,
        Moved({name: f"engine.options.{name}" for name in ("address", "client_cpus", "client_gpus")}),
    ] = Field(
        default="",
        description=(
            "The engine's own, keyword parameters of what runs it. ray: address, HOST:PORT of a running cluster, "
            "without which one is started on this machine and stopped after the run; client_cpus and client_gpus, "
            "cores (1) and GPUs (0) reserved for each client that runs, or a share of one: with device = cuda they are "
            "trained on."
        ),
    )
    device: Annotated[str, ReadBy.TORCH] = Field(
        default="cpu",
        description=(
            "Where torch modules are computed: cpu, cuda, cuda:1, mps; auto takes the first of cuda, mps and cpu that"
            " there is. Each kind has bytes of its own. Nodes on a network compute where their owners say."
        ),
    )

    @field_validator("device")
    @classmethod
    def _is_a_device(cls, value: str) -> str:
        if not DEVICE.fullmatch(value):
            raise ValueError("write cpu, cuda, cuda:1 and so on, mps or auto")
        return value
