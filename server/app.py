"""The ServerApp: puts the parts of a run together and runs its rounds."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedlearn import wire
from fedlearn.clock import WallClock
from fedlearn.config import RunConfig, from_flower
from fedlearn.engine.base import NodeKeeper, VirtualGrid
from fedlearn.models.loaded import Traits, with_found_data
from fedlearn.runs.checkpoint import RunStore
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.log import EventLog
from fedlearn.state import UpdateKind
from server.fitting import check_fitting
from server.grids import with_boxes
from server.phases.evaluation import compute
from server.schedules.synchronous import Rounds
from server.summary import noise_notice, write_summary
from strategies import RoundStrategy, load_strategy

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds of a new run, or those that are left of the one in the run folder."""
    config = from_flower(context.run_config)
    if not isinstance(grid, VirtualGrid):  # a simulation has looked before
        config = with_found_data(config)
    grid = with_boxes(grid)
    folder = RunFolder(Path(config.out or f"runs/{datetime.now(UTC):%Y%m%d-%H%M%S}"))
    with folder.locked(), EventLog(folder.events) as events:
        strategy = load_strategy(config.strategy)
        (traits,) = compute(grid, config, "fedlearn.models.loaded:traits", {}, [()])
        assert isinstance(traits, Traits)
        check_fitting(config, traits, strategy)
        store = RunStore(folder.path, traits.metrics)
        if store.exists:
            folder.check_settings(config)
        folder.write_settings(config)  # first: a folder with a state can then always be resumed
        if store.exists:
            _resume(store, strategy, grid)
        else:
            (state,) = compute(grid, config, "fedlearn.models.loaded:initial_state", {}, [()])
            store.begin(state)
        events.write("started", **_about(config, store, traits))
        rounds = Rounds(grid, strategy, store, config, clock=WallClock(), events=events, kind=traits.update_kind)
        _finish(rounds, folder, config, events)


def _resume(store: RunStore, strategy: RoundStrategy, grid: Grid) -> None:
    """Take up the run where its checkpoint stands."""
    store.load()
    strategy.remember(store.memory)
    if isinstance(grid, NodeKeeper):
        grid.restore_node_states(store.node_states)


def _about(config: RunConfig, store: RunStore, traits: Traits) -> dict[str, object]:
    """Return what a watcher of the event log wants to know first.

    An ensemble grows, so there is no plain report that all others could be compared with.
    """
    averaged = traits.update_kind is not UpdateKind.ENSEMBLE
    notices = [config.data.notice, noise_notice(config) if traits.metrics.privacy_loss else ""]
    return {
        "committed": len(store.history.rounds),
        "rounds": config.rounds.total,
        "clients": config.clients,
        "cohort": config.goal_count,
        "dataset": config.data.dataset,
        "notice": " ".join(notice for notice in notices if notice),
        "model": config.model.name,
        "codec": config.compression.codec,
        "strategy": config.strategy.name,
        "seed": config.seed,
        "metrics": traits.metrics.to_plain(),
        "plain_bytes": wire.bytes_of(wire.plain_report(store.state)) if averaged else 0,
    }


def _finish(rounds: Rounds, folder: RunFolder, config: RunConfig, events: EventLog) -> None:
    """Run the rounds; write the summary however they end."""
    status, reason = "failed", ""
    try:
        rounds.run()
        status = "completed"
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    except BaseException as error:
        reason = str(error) or type(error).__name__
        raise
    finally:
        write_summary(folder, rounds, config, status=status, reason=reason)
        events.write("ended", status=status, reason=reason)
