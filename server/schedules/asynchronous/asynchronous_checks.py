"""What cannot be run by an asynchronous schedule, refused before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError
from fedlearn.core.state import UpdateKind
from server.run import ServerRun
from strategies.base import RoundStrategy


def check_asynchronous(
    config: RunConfig, options: Mapping[str, Any], strategy: RoundStrategy[Any], kind: UpdateKind,
    *, is_virtual: bool, is_timed: bool,
) -> None:  # fmt: skip
    """Refuse settings, options, strategies and kinds of updates that no asynchronous schedule can run."""
    name, rounds = config.rounds.schedule, config.rounds
    if is_virtual and not is_timed:
        raise SettingError(
            "rounds.schedule", name,
            "virtual clients without devices take no time, so none would be faster: name some by --devices",
        )  # fmt: skip
    if not kind.is_averaged:
        raise SettingError(
            "rounds.schedule", name,
            f"it adds up changes; model {config.model.name!r} has none: use 'synchronous'",
        )  # fmt: skip
    if not strategy.takes_stale:
        raise SettingError(
            "rounds.schedule", name,
            f"strategy {config.strategy.name!r} does not say that it takes changes of earlier states "
            "(takes_stale): use 'synchronous', or another strategy",
        )  # fmt: skip
    if rounds.selector != "uniform":
        raise SettingError(
            "rounds.selector", rounds.selector,
            f"schedule {name!r} draws clients one by one, whenever another has reported: use 'uniform'",
        )  # fmt: skip
    if rounds.over_selection > 1:
        raise SettingError(
            "rounds.over_selection", rounds.over_selection,
            f"schedule {name!r} waits for nobody: use 1, and rounds.schedule_options.in_flight for more clients",
        )  # fmt: skip
    for option in ("in_flight", "buffer_size"):
        if options.get(option, 0) > config.clients:
            raise SettingError(
                f"rounds.schedule_options.{option}", options[option],
                f"there are {config.clients} clients, and none counts twice in one attempt: use no more",
            )  # fmt: skip


def check_parcels(run: ServerRun) -> None:
    """Refuse strategies that send or ask for more than the state: what it would mean when stale, only they know."""
    if run.strategy.parcels(run.state) or run.answers:
        raise SettingError(
            "rounds.schedule", run.config.rounds.schedule,
            f"strategy {run.config.strategy.name!r} sends parcels beside the state: use 'synchronous'",
        )  # fmt: skip
