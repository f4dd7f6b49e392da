"""Whether what `compression.downlink` names can send the state to these nodes."""

from __future__ import annotations

from fedlearn.compression import load_anchor, load_downlink
from fedlearn.compression.anchor import MOVING, NAME
from server.features.downlink.anchors import energy_lost
from server.rules import Asked, Rule

NAMED = "compression.downlink"


def _cannot_send(asked: Asked) -> bool:
    return asked.traits.update_kind not in load_downlink(asked.config.compression).accepts


def _has_anchor(asked: Asked) -> bool:
    return load_anchor(asked.config.compression) is not None


def _sends_changes(asked: Asked) -> bool:
    codec, kind = load_downlink(asked.config.compression), asked.traits.update_kind
    return bool(codec.needs_change) or codec.keeps_residual or codec.emits(kind) is not kind


def _moves(asked: Asked) -> bool:
    how = load_anchor(asked.config.compression)
    return how is not None and how.moves


def _why_not_all(asked: Asked) -> str:
    """Return why a node may miss a round; empty where all nodes take part in all of them."""
    config = asked.config
    if config.rounds.schedule != "synchronous":
        return f"with rounds.schedule = {config.rounds.schedule!r} they do not"
    if config.goal_count < config.clients or config.samples_poisson:
        return f"{config.goal_count} of {config.clients} are drawn in each"
    return f"devices {config.devices.name!r} are away at times" if config.devices.name else ""


RULES = (
    Rule(NAMED, _cannot_send, "it cannot send the state of model {config.model.name!r}", "use 'identity'"),
    Rule(
        "compression.send", lambda asked: _has_anchor(asked) and asked.config.sends != "update",
        "the server keeps the exact state, and clients train from a decoded one",
        "what they add to it is their change; with compression.downlink = {config.compression.downlink!r} use 'update'",
    ),
    Rule(
        NAMED, lambda asked: _has_anchor(asked) and load_downlink(asked.config.compression).keeps_residual,
        "the corrections of two rounds are not added up, so none owes another one anything", "leave 'residual' out",
    ),
    Rule(
        NAMED, lambda asked: not _has_anchor(asked) and _sends_changes(asked),
        "clients need the whole state, not a change of one that they may not have",
        "use a chain in which no stage leaves entries out, keeps a residual, or wants the change; or put an anchor "
        "before it: anchor:50,eden",
    ),
    Rule(
        NAMED, lambda asked: _moves(asked) and _why_not_all(asked),
        "all clients must take part in all rounds, and {some_do_not}", f"write {NAME}:50:4 in place of {MOVING}",
        given={"some_do_not": _why_not_all},
    ),
    Rule(
        NAMED, lambda asked: _moves(asked) and energy_lost(asked.config) >= 1,
        "of a normal vector the correction loses {more_than_once:.1f} times its energy, so that its errors grow",
        "take a chain that keeps a part of any vector, as top-k or drop",
        given={"more_than_once": lambda asked: energy_lost(asked.config)},
    ),
)  # fmt: skip
