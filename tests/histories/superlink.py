"""A SuperLink in this process: Flower's own state and calls, as our SuperLink changes them, without HTTP."""

from __future__ import annotations

import os
import threading
import warnings
from functools import partial
from hashlib import sha256
from types import SimpleNamespace

import httpx
from flwr.common.constant import NOOP_FLWR_AID, SubStatus
from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState
from flwr.supercore.constant import NOOP_FEDERATION_ID, TaskType
from flwr.supercore.error import FlowerError
from flwr.supercore.error.catalog import API_ERROR_MAP
from flwr.supercore.fab import Fab
from flwr.supercore.object_store.sql_object_store import SqlObjectStore
from flwr.supercore.run import Run
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.grid import HttpGrid
from flwr.superlink.servicer.fleet import fleet_handlers
from flwr.superlink.servicer.runtime import runtime_handlers

from fedlearn.flower import enclosed, superlink_middleware

FAB = Fab(sha256(b"a bundle").hexdigest(), b"a bundle", {})
fleet_push_object = partial(superlink_middleware.store_part, fleet_handlers.push_object)
FLEET = {
    "ActivateNode": fleet_handlers.activate_node,
    "DeactivateNode": fleet_handlers.deactivate_node,
    "SendNodeHeartbeat": fleet_handlers.send_node_heartbeat,
    "PullMessages": enclosed.enclosing(fleet_handlers.pull_messages),
    "PushMessages": enclosed.storing_enclosed(
        partial(superlink_middleware.store_reply, fleet_handlers.push_messages), fleet_push_object
    ),
    "GetRun": fleet_handlers.get_run,
    "GetFab": fleet_handlers.get_fab,
    "PullObject": fleet_handlers.pull_object,
    "PushObject": fleet_push_object,
    "ConfirmMessageReceived": fleet_handlers.confirm_message_received,
}
SERVER = {
    "PushMessages": enclosed.storing_enclosed(runtime_handlers.push_messages, runtime_handlers.push_object),
    "PullMessages": enclosed.enclosing(runtime_handlers.pull_messages),
    "PushObject": runtime_handlers.push_object,
    "PullObject": runtime_handlers.pull_object,
    "ConfirmMessageReceived": runtime_handlers.confirm_message_received,
}
WITH_STORE = ("PullMessages", "ConfirmMessageReceived")  # calls of the Fleet API that want the object store, too


class SuperLink:
    """Flower's state of a SuperLink, and runs that begin and end in it."""

    def __init__(self, folder):
        place = f"{folder}/superlink.db"
        self.store = SqlObjectStore(place)
        self.state = SqlLinkState(place, NoOpFederationManager(), self.store)
        self.lock = threading.RLock()
        self.news = threading.Condition()  # a server app has sent something
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of alembic's, about Flower's own files
            self.store.initialize()
            self.state.initialize()
        self.state.store_fab(FAB)

    def register(self):
        """Register a node; return its key."""
        key = os.urandom(40)
        self.state.create_node(NOOP_FLWR_AID, "owner", key, 0)
        return key

    def begin(self):
        """Begin a run; return the grid of its server app."""
        run_id = self.state.create_run(
            "x/y", "1", FAB.hash_str, {}, NOOP_FEDERATION_ID, None, NOOP_FLWR_AID, TaskType.SERVER_APP
        )
        task_id = self.state.get_run_info(run_ids=[run_id])[0].primary_task_id
        self.state.claim_task(task_id)
        self.state.activate_task(task_id)
        grid = HttpGrid(token="ours")
        grid._client = Calls(self, SERVER, task=SimpleNamespace(run_id=run_id, task_id=task_id))
        grid.set_run(Run.create_empty(run_id))
        return grid

    def end(self, grid, how=SubStatus.FAILED):
        """End the run of a grid."""
        with self.lock:
            self.state.finish_task(grid._client.task.task_id, how, "")


class Calls:
    """The calls of a node, or of a server app; what Flower refuses is an HTTP status, as over HTTP."""

    def __init__(self, link, calls, task=None, before=lambda name: None):
        self.link, self.calls, self.task, self.before = link, calls, task, before

    def __getattr__(self, name):
        if name not in self.calls:
            raise AttributeError(name)
        return partial(self.call, name)

    def call(self, name, request):
        """Make a call, as if over HTTP."""
        self.before(name)
        more = [self.task] if self.task else []
        if name in WITH_STORE and not self.task:
            more = [self.link.store]
        # the messages are read anew on either side
        request = type(request).FromString(request.SerializeToString())
        try:
            with self.link.lock:
                answer = self.calls[name](request, self.link.state, *more)
        except (FlowerError, ValueError) as error:
            status = API_ERROR_MAP[error.code].http_status_code if isinstance(error, FlowerError) else 500
            response = httpx.Response(status, text="{}", request=httpx.Request("POST", "http://here"))
            raise httpx.HTTPStatusError(str(error), request=response.request, response=response) from None
        if self.task and name.startswith("Push"):
            with self.link.news:
                self.link.news.notify_all()
        return type(answer).FromString(answer.SerializeToString())
