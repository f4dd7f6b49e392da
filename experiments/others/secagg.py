"""Flower's SecAgg+ beside secure sums here, on the same vectors: bytes and processor time of a node, and of the server.

    python -m experiments.others.secagg --nodes 20 --entries 62006
    python -m experiments.others.secagg --nodes 100 --neighbors 32 --entries 2156490

Flower's workflow and client mod run as they are, by their own (older) interface, on a grid in this process; nodes train
nothing and return made vectors. Here the state machines of `fedlearn.secure` run on the same vectors, with the same
number of neighbors, 16 bits and weights of one. Bytes are those of the serialised records.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from copy import deepcopy
from typing import Annotated, Any

import numpy as np
import typer
from flwr.app import Context, Message, RecordDict
from flwr.client import ClientApp, NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.common import ConfigRecord, ndarrays_to_parameters
from flwr.compat.common import recorddict_compat as compat
from flwr.server import ServerConfig, SimpleClientManager
from flwr.server.compat import LegacyContext
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key

from fedlearn import flower, wire
from fedlearn.secure import texts
from fedlearn.secure.demands import Demands
from fedlearn.secure.fixed_point import FixedPoint
from fedlearn.secure.level import Level
from fedlearn.secure.node_protocol import SecureNode
from fedlearn.secure.packed import packed
from fedlearn.secure.question import Question
from fedlearn.secure.server_protocol import SecureServer

SCALE = 0.01  # standard deviation of an entry


def vector_of(node: int, entries: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return what a node sends: normal numbers, the same in both."""
    return np.random.default_rng(node).normal(0, SCALE, entries).astype(np.float32)


class Nodes:
    """A grid of Flower whose nodes run in this process, and are measured."""

    def __init__(self, nodes: int, entries: int) -> None:
        self.ids = list(range(1, nodes + 1))
        self._contexts = {node: Context(0, node, {}, RecordDict(), {}) for node in self.ids}
        self._entries = entries
        self.up: Counter[int] = Counter()
        self.seconds: defaultdict[int, float] = defaultdict(float)

    def get_node_ids(self) -> list[int]:
        """Return the ids of all nodes."""
        return self.ids

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Return the nodes' answers."""
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            vector, delivered = vector_of(node, self._entries), deepcopy(message)  # messages share records
            began = time.process_time()
            reply = app_of(vector)(delivered, self._contexts[node])
            self.seconds[node] += time.process_time() - began
            self.up[node] += wire.bytes_of(reply.content)
            replies.append(reply)
        return replies


def app_of(vector: np.ndarray[Any, np.dtype[np.float32]]) -> ClientApp:
    """Return the app of a node that sends a vector."""

    def client_fn(context: Context):  # type: ignore[no-untyped-def]  # Flower reads this signature
        return Client(vector).to_client()

    return ClientApp(client_fn=client_fn, mods=[secaggplus_mod])


class Client(NumPyClient):
    """A node that trains nothing."""

    def __init__(self, vector: np.ndarray[Any, np.dtype[np.float32]]) -> None:
        self.vector = vector

    def fit(self, parameters: Any, config: Any) -> tuple[list[Any], int, dict[str, Any]]:
        """Return the vector, of one example."""
        return [self.vector], 1, {}


def flowers(nodes: int, neighbors: int, entries: int) -> dict[str, float]:
    """Return what Flower's SecAgg+ costs."""
    grid, manager = Nodes(nodes, entries), SimpleClientManager()
    for node in grid.ids:
        manager.register(GridClientProxy(node_id=node, grid=grid, run_id=0))  # type: ignore[arg-type]
    start = ndarrays_to_parameters([np.zeros(entries, np.float32)])
    strategy = FedAvg(min_available_clients=nodes, min_fit_clients=nodes, initial_parameters=start)
    context = LegacyContext(
        Context(0, 0, {}, RecordDict(), {}),
        config=ServerConfig(num_rounds=1),
        strategy=strategy,
        client_manager=manager,
    )
    context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: 1, Key.START_TIME: 0.0})
    context.state.array_records[MAIN_PARAMS_RECORD] = compat.parameters_to_arrayrecord(start, keep_input=True)
    began = time.process_time()
    shares = neighbors + 1
    workflow = SecAggPlusWorkflow(shares, shares // 2 + 1, max_weight=1, clipping_range=1.0, quantization_range=2**16)
    workflow(grid, context)  # type: ignore[arg-type]  # of a grid it asks no more
    whole = time.process_time() - began
    (found,) = context.state.array_records[MAIN_PARAMS_RECORD].to_numpy_ndarrays()
    exact = np.mean([vector_of(node, entries) for node in grid.ids], axis=0, dtype=np.float64)
    on_nodes = sum(grid.seconds.values())
    return row(np.mean(list(grid.up.values())), on_nodes / nodes, (whole - on_nodes) / nodes, found - exact, entries)


def ours(nodes: int, neighbors: int, entries: int) -> dict[str, float]:
    """Return what a secure sum costs here."""
    point = FixedPoint(1.0, 16, nodes)
    bits, question = point.modulus_bits, Question("run", 1, 1)
    level = Level(nodes, neighbors, neighbors // 2 + 1)
    parts = {each: SecureNode("run", each, demands=Demands(security=0)) for each in range(1, nodes + 1)}
    up: Counter[int] = Counter()
    seconds: defaultdict[str, float] = defaultdict(float)

    def timed(what: str, call: Any, *arguments: Any) -> Any:
        began = time.process_time()
        found = call(*arguments)
        seconds[what] += time.process_time() - began
        return found

    def said(node: int, message: Any) -> Any:
        up[node] += len(texts.to_bytes(message))
        return message

    adverts = [said(each, timed("nodes", part.advertise, question)) for each, part in parts.items()]
    server = timed("server", lambda: SecureServer(question, level, adverts, count=entries, bits=bits))
    for each, part in parts.items():
        timed("server", server.shared, said(each, timed("nodes", part.share, server.roster)))
    delivered = timed("server", server.deliver)
    for each, part in parts.items():
        values = timed("nodes", point.encoded, vector_of(each, entries), np.random.default_rng(each))
        masked = timed("nodes", part.mask, delivered[each], values, bits)
        up[each] += len(timed("nodes", packed, masked.values, bits))
        timed("server", server.masked, masked)
    survivors = timed("server", server.survivors)
    for each, part in parts.items():
        timed("server", server.signed, said(each, timed("nodes", part.sign, survivors[each])))
    unmasking = timed("server", server.unmasking)
    for each, part in parts.items():
        timed("server", server.unmasked, said(each, timed("nodes", part.unmask, survivors[each], unmasking[each])))
    found = point.decoded(timed("server", server.summed).total, nodes) / nodes
    exact = np.mean([vector_of(each, entries) for each in parts], axis=0, dtype=np.float64)
    return row(np.mean(list(up.values())), seconds["nodes"] / nodes, seconds["server"] / nodes, found - exact, entries)


def row(up: Any, node: float, server: float, error: Any, entries: int) -> dict[str, float]:
    """Return the numbers of one line."""
    return {
        "up / float32": float(up) / (4 * entries), "node, ms": 1000 * node, "server, ms a node": 1000 * server,
        "largest error": float(np.abs(error).max()),
    }  # fmt: skip


def main(
    nodes: Annotated[int, typer.Option(help="Nodes of the cohort.")] = 20,
    neighbors: Annotated[int, typer.Option(help="Of each; 0 for all others.")] = 0,
    entries: Annotated[int, typer.Option(help="Of the vector that each sends.")] = 62_006,
    repeats: Annotated[int, typer.Option(help="Pairs, in turns.")] = 3,
) -> None:
    """Run both in turns; print medians."""
    flower.enter_run()
    found: dict[str, list[dict[str, float]]] = {"Flower's SecAgg+": [], "here": []}
    for _ in range(repeats):
        found["Flower's SecAgg+"].append(flowers(nodes, neighbors or nodes - 1, entries))
        found["here"].append(ours(nodes, neighbors or nodes - 1, entries))
    names = list(found["here"][0])
    print(f"| {nodes} nodes, {entries:,} entries | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for who, runs in found.items():
        print(f"| {who} | " + " | ".join(f"{np.median([run[name] for run in runs]):.3g}" for name in names) + " |")


if __name__ == "__main__":
    typer.run(main)
