"""The ServerApp: puts the parts of a run together and runs its rounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedlearn.config.fields import seconds_in
from fedlearn.core.errors import SettingError
from fedlearn.core.stopping import Stopped, shielded
from fedlearn.plugins.registry import call_plugin
from fedlearn.runs.checksums import write_checksums
from fedlearn.runs.file_names import MANIFEST
from fedlearn.runs.folder import RunFolder, new_folder
from fedlearn.runs.log import EventLog
from fedlearn.runs.stop_requests import stoppable
from server.phases.tested import tested
from server.planning.begin_or_resume import reached, run_in, selector_of
from server.results.completed import Completed
from server.results.printing_log import PrintingLog
from server.results.summary import (
    learning_rate,
    noise_notice,
    parameters,
    plain_bytes,
    write_analysis,
    write_counted,
    write_summary,
)
from server.run import ServerRun
from server.schedules import Schedule

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds of a new run, or those that are left of the one in the run folder."""
    with opened(grid, context) as (run, schedule), stoppable(run.store.folder, seconds_in(run.config.stop.time_limit)):
        schedule.run()


@contextmanager
def opened(grid: Grid, context: Context) -> Iterator[tuple[ServerRun, Schedule]]:
    """Yield a new or resumed run, all of it checked, with its schedule; write its results after the block."""
    config, exchange = reached(grid, context)
    folder = RunFolder(Path(config.out) if config.out else new_folder())
    selector = selector_of(config, exchange)
    log_of = EventLog if exchange.is_virtual else PrintingLog
    with folder.locked(), log_of(folder.events, exchange.clock if exchange.timed else None) as events:
        completed = Completed(folder)
        run, plan = run_in(folder, config, exchange, selector, events)
        schedule: Schedule = call_plugin("rounds.schedule", config.rounds.schedule, plan.make_schedule, run)
        if not hasattr(schedule, "run"):
            raise SettingError("rounds.schedule", config.rounds.schedule, "what it makes is no schedule: it has no run")
        run.stopping.say_of(folder.path, committed=len(run.store.history.rounds))
        (folder.path / MANIFEST).unlink(missing_ok=True)  # of what the folder held before
        events.write("started", **_about(run))
        with _summarized(run, folder, completed) as of_test_rows:
            yield run, schedule
            of_test_rows |= tested(run)
            if plan.traits.counts:
                write_counted(run)
            if plan.traits.analyzes:
                write_analysis(run)


def _about(run: ServerRun) -> dict[str, object]:
    """Return what a watcher of the event log wants to know first.

    A state that grows has no plain report that all others could be compared with.
    """
    config, store = run.config, run.store
    notices = [config.data.notice, noise_notice(run), *run.notes]
    return {
        "committed": len(store.history.rounds),
        "rounds": config.rounds.total,
        "clients": config.clients,
        "cohort": config.goal_count,
        "dataset": config.data.dataset,
        "notice": "; ".join(notice for notice in notices if notice),
        "model": config.model.name,
        "codec": config.compression.codec,
        "strategy": config.strategy.name,
        **({"learning_rate": rate} if (rate := learning_rate(config)) and not run.traits.has_own_rate else {}),
        "seed": config.seed,
        "metrics": store.metrics.to_plain(),
        "plain_bytes": plain_bytes(run) if run.traits.update_kind.is_averaged else 0,
        "parameters": parameters(run),
    }


@contextmanager
def _summarized(run: ServerRun, folder: RunFolder, before: Completed) -> Iterator[dict[str, object]]:
    """Write the summary of what is run in the block, however it ends, with what is put into the dictionary.

    A completed run of which further rounds were asked, and none was committed, stays what it was.
    """
    status, reason = "failed", ""
    of_test_rows: dict[str, object] = {}
    try:
        yield of_test_rows
        status = "completed"
    except KeyboardInterrupt as error:
        status, reason = "interrupted", error.reason if isinstance(error, Stopped) else ""
        if not run.exchange.is_virtual:
            raise SystemExit(0) from None  # Flower's way to end a server app in order
        raise
    except SystemExit as error:
        is_stopped = not (run.exchange.is_virtual or error.code)  # on a network: Flower's way to end by SIGTERM
        status, reason = ("interrupted", "") if is_stopped else (status, str(error))
        raise
    except BaseException as error:
        reason = str(error) or type(error).__name__
        raise
    finally:
        with shielded():
            if status == "failed" and before.put_back(run.store.history):
                status = "completed"
            else:
                write_summary(folder, run, status=status, reason=reason, of_test_rows=of_test_rows)
            run.events.write("ended", status=status, reason=reason)
            write_checksums(folder.path)
