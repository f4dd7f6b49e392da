"""Tasks whose process has vanished are searched for once a second, not at every request."""

from __future__ import annotations

import warnings

import pytest
from flwr.common.constant import NOOP_FLWR_AID
from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState
from flwr.supercore.constant import NOOP_FEDERATION_ID, TaskType
from flwr.supercore.object_store.sql_object_store import SqlObjectStore
from flwr.superlink.federation import NoOpFederationManager

from fedlearn.flower import superlink_middleware

SEARCH = "_cleanup_expired_task_tokens"


@pytest.fixture
def state(tmp_path):
    place = f"{tmp_path}/superlink.db"
    state = SqlLinkState(place, NoOpFederationManager(), SqlObjectStore(place))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of alembic's, about Flower's own files
        state.initialize()
    return state


def test_a_vanished_server_app_is_found_within_a_second(state, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(superlink_middleware.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(
        SqlLinkState,
        SEARCH,
        superlink_middleware.at_most_each(superlink_middleware.EXPIRY, getattr(SqlLinkState, SEARCH)),
    )
    run = state.create_run("x/y", "1", "hash", {}, NOOP_FEDERATION_ID, None, NOOP_FLWR_AID, TaskType.SERVER_APP)
    task = state.get_run_info(run_ids=[run])[0].primary_task_id
    token = state.claim_task(task)
    state.activate_task(task)
    with state.session() as session:
        session.connection().exec_driver_sql("UPDATE task SET active_until = '2020-01-01 00:00:00.000000'")

    def status():
        found = state.get_run_status({run})[run]
        return found.status, found.sub_status, state.get_task_by_token(token) is not None

    assert status() == ("running", "", False)  # whose token has expired acts no more, also before the search
    clock[0] += superlink_middleware.EXPIRY
    assert status() == ("finished", "failed", False)
    assert status() == ("finished", "failed", False)


def test_a_call_is_left_out_only_while_it_was_made_just_before(monkeypatch):
    clock, made = [5.0], []
    monkeypatch.setattr(superlink_middleware.time, "monotonic", lambda: clock[0])
    call = superlink_middleware.at_most_each(1.0, made.append)
    for moment in (5.0, 5.9, 6.0, 6.99, 8.0):
        clock[0] = moment
        call(moment)
    assert made == [5.0, 6.0, 8.0]
