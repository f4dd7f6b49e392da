"""All names of Flower that fedlearn needs and that are not public API stand in this folder.

Written for flwr 1.41. When Flower moves such a name, this is the folder to mend. The modules that only a deployment
needs, as `runtime` and `control`, are imported by name.
"""

import os

os.environ.update(  # before Flower and Ray are imported: they send nothing home, unless the user has set it otherwise
    {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        **os.environ,
    }
)

from flwr.clientapp.typing import ClientAppCallable
from flwr.common.constant import ErrorCode  # in a reply's Error
from flwr.proto.node_pb2 import NodeInfo  # what `Grid.get_nodes` gives
from flwr.serverapp.strategy.strategy_utils import aggregate_metricrecords
from flwr.supercore.run import Run  # `Grid.run` must return one
from flwr.supercore.task_identity import TaskIdentity

from fedlearn.flower.logs import log_as_we_do, log_by_itself
from fedlearn.flower.messages import (
    RUN_ID,
    SERVER_NODE_ID,
    client_actor,
    empty_run,
    enter_run,
    message_to,
    readdressed,
    received,
    reply_from,
    server_context,
    with_id,
)
from fedlearn.flower.records import (
    R,
    Record,
    array_of,
    entries_of,
    filled,
    from_bytes,
    records_of,
    size_in_bytes,
    to_bytes,
)
from fedlearn.flower.strategies import forget_pending

__all__ = [
    "RUN_ID",
    "SERVER_NODE_ID",
    "ClientAppCallable",
    "ErrorCode",
    "NodeInfo",
    "R",
    "Record",
    "Run",
    "TaskIdentity",
    "aggregate_metricrecords",
    "array_of",
    "client_actor",
    "empty_run",
    "enter_run",
    "entries_of",
    "filled",
    "forget_pending",
    "from_bytes",
    "log_as_we_do",
    "log_by_itself",
    "message_to",
    "readdressed",
    "received",
    "records_of",
    "reply_from",
    "server_context",
    "size_in_bytes",
    "to_bytes",
    "with_id",
]
