"""Whether what `compression.downlink` names can send the state; asked before anything is sent."""

from __future__ import annotations

from fedlearn.compression import Anchor, Codec, load_anchor, load_downlink
from fedlearn.compression.anchor import MOVING, NAME
from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError
from fedlearn.core.state import UpdateKind
from server.anchors import energy_lost


def check_downlink(config: RunConfig, kind: UpdateKind) -> None:
    """Raise SettingError where a chain, or an anchor, cannot send the state, or cannot send it to these nodes."""
    codec = load_downlink(config.compression)
    if kind not in codec.accepts:
        raise SettingError(
            "compression.downlink", config.compression.downlink,
            f"it cannot send the state of model {config.model.name!r}: use 'identity'",
        )  # fmt: skip
    if (how := load_anchor(config.compression)) is not None:
        _check_anchor(config, codec, how)
    elif codec.needs_change or codec.keeps_residual or codec.emits(kind) is not kind:
        raise SettingError(
            "compression.downlink", config.compression.downlink,
            "nodes need the whole state, not a change of one that they may not have: use a chain in which no stage "
            "leaves entries out, keeps a residual, or wants the change; or put an anchor before it: anchor:50,eden",
        )  # fmt: skip


def _check_anchor(config: RunConfig, codec: Codec, how: Anchor) -> None:
    """Refuse weights, which would bring the error of the way down into the state, and a residual, which nodes lack."""
    if config.sends != "update":
        raise SettingError(
            "compression.send", config.compression.send,
            "the server keeps the exact state, and nodes train from a decoded one: what they add to it is their "
            f"change; with compression.downlink = {config.compression.downlink!r} use 'update'",
        )  # fmt: skip
    if codec.keeps_residual:
        raise SettingError(
            "compression.downlink", config.compression.downlink,
            "the corrections of two rounds are not added up, so none owes another one anything: leave 'residual' out",
        )  # fmt: skip
    if how.moves:
        _check_moving(config)


def _check_moving(config: RunConfig) -> None:
    """Refuse an anchor that moves in each round where a node may miss one, or where corrections do not get smaller."""
    why, instead = "", f"write {NAME}:50:4 in place of {MOVING}"
    if config.rounds.schedule != "synchronous":
        why = f"with rounds.schedule = {config.rounds.schedule!r} they do not"
    elif config.goal_count < config.clients or config.rounds.selector == "poisson":
        why = f"{config.goal_count} of {config.clients} are drawn in each"
    elif config.devices.name:
        why = f"devices {config.devices.name!r} are away at times"
    if why:
        why = f"all nodes must take part in all rounds, and {why}"
    elif (lost := energy_lost(config)) >= 1:
        why = f"of a normal vector the correction loses {lost:.1f} times its energy, so that its errors grow"
        instead = "take a chain that keeps a part of any vector, as top-k or drop"
    if why:
        raise SettingError("compression.downlink", config.compression.downlink, f"{why}: {instead}")
