"""Requests that a stranger, or the holder of one node key, makes to a federation: a table of kinds.

A new kind is a function of an `Attacker` and a row of `KINDS`. Everything stays on loopback, each party at an address
of its own, as the proxy counts connections and requests by address.
"""

from __future__ import annotations

import http.client
import math
import os
import select
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import ConfigRecord, MetricRecord, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto import fleet_pb2, heartbeat_pb2, message_pb2, node_pb2
from flwr.supercore.date import now
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, iterate_object_tree
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message

from fedlearn import flower, wire
from tests.waiting import wait_until

MIB = 1 << 20
PART = 5 * MIB  # the largest part of an honest report
PORT = 8443
WAIT = 120.0  # seconds for the federation to let the node in, and to ask it something
HANGING = 120  # connections that one address holds at a time
CALLS = {  # of the Fleet API, with the request of each
    "pull-messages": fleet_pb2.PullMessagesRequest,
    "push-messages": fleet_pb2.PushMessagesRequest,
    "push-object": message_pb2.PushObjectRequest,
    "pull-object": message_pb2.PullObjectRequest,
    "send-node-heartbeat": heartbeat_pb2.SendNodeHeartbeatRequest,
}
ODD_PATHS = (
    "/v1/control/list-runs", "/v1/control/start-run", "/v1/runtime/acquire-task", "/v1/fleet/../control/list-runs",
    "/v1/fleet/%2e%2e/control/list-runs", "/v1/control/list-runs%3f/../../fleet/x", "//v1/control/list-runs", "/",
    "/v1/fleet/pull-messages?x=1", "/v1/fleet/pull-messages;x", "/docs", "/openapi.json", "/v1/fleet/" + "a" * 4000,
)  # fmt: skip


Tree = message_pb2.ObjectTree


class Attacker:
    """Somebody who can reach the proxy; with a node key, who also takes part in the run.

    Parameters
    ----------
    proxy
        The proxy's address.
    source
        His own.
    key
        File with a node's private key; None makes one that nobody has registered.
    """

    def __init__(self, proxy: str, source: str, key: Path | None = None) -> None:
        self.proxy, self.source = proxy, source
        private = load_ssh_private_key(key.read_bytes(), None) if key else ec.generate_private_key(ec.SECP384R1())
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        self._private, self.public = private, public_key_to_bytes(private.public_key())
        self.node = node_pb2.Node()
        self.asked: list[Any] = []  # messages of the server, the latest last
        self.trees: dict[str, Tree] = {}  # of these messages' parts
        self._answered: set[str] = set()
        self._heard = 0  # ready queries
        self._used: dict[str, str] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._context = ssl._create_unverified_context()

    # --- requests -----------------------------------------------------------------------------------------------------

    def signed(self) -> dict[str, str]:
        """Return the headers by which a node signs."""
        signed_at = now().isoformat()
        signature = sign_message(self._private, signed_at.encode())
        return {"flwr-public-key": b64encode(self.public).decode(), "flwr-timestamp": signed_at,
                "flwr-signature": b64encode(signature).decode()}  # fmt: skip

    def used_headers(self) -> dict[str, str]:
        """Return headers by which a request was signed that the SuperLink has answered."""
        with self._lock:
            while not self._used:
                headers = self.signed()
                if self.post("/v1/fleet/pull-messages", self.pull(), headers)[0] == "200":
                    self._used = headers
            return self._used

    def pull(self) -> bytes:
        """Return the body of a question for messages."""
        return bytes(fleet_pb2.PullMessagesRequest(node=self.node).SerializeToString())

    def connect(self) -> ssl.SSLSocket:
        """Return a connection to the proxy."""
        plain = socket.create_connection((self.proxy, PORT), timeout=60, source_address=(self.source, 0))
        return self._context.wrap_socket(plain)

    def post(self, path: str, body: bytes, headers: dict[str, str], *, size: int | None = None) -> tuple[str, bytes]:
        """Send a request; return status and answer, or how the connection ended. `size`: what it says of its body."""
        try:
            connection = http.client.HTTPSConnection(self.proxy, PORT, timeout=60)
            connection.sock = self.connect()
            connection.putrequest("POST", path)
            for name, value in {"content-type": "application/protobuf", **headers}.items():
                connection.putheader(name, value)
            connection.putheader("content-length", str(len(body) if size is None else size))
            connection.endheaders()
            with suppress(OSError):  # it may be refused before all of it was sent
                connection.send(body)
            answer = connection.getresponse()
            return str(answer.status), answer.read()
        except (OSError, http.client.HTTPException):
            return "closed", b""
        finally:
            connection.close()

    def call(self, name: str, request: Any) -> tuple[str, bytes]:
        """Make a call of the Fleet API as a SuperNode does."""
        return self.post(f"/v1/fleet/{name}", request.SerializeToString(), self.signed())

    # --- taking part --------------------------------------------------------------------------------------------------

    def take_part(self) -> None:
        """Be a node that receives messages, until `leave`."""
        activation = fleet_pb2.ActivateNodeRequest(public_key=self.public, heartbeat_interval=30.0)
        answered = ("", b"")

        def is_known() -> bool:  # its key is registered when the run is submitted
            nonlocal answered
            answered = self.call("activate-node", activation)
            return answered[0] == "200"

        wait_until(is_known, lambda: f"activation: {answered}", WAIT, every=0.5)
        self.node.node_id = fleet_pb2.ActivateNodeResponse.FromString(answered[1]).node_id
        threading.Thread(target=self._hear, daemon=True).start()

    def leave(self) -> None:
        """Stop receiving messages."""
        self._over.set()

    def _hear(self) -> None:
        for number in count():
            if number % 50 == 0:
                beat = heartbeat_pb2.SendNodeHeartbeatRequest(node=self.node, heartbeat_interval=30.0)
                self.call("send-node-heartbeat", beat)
            status, answer = self.call("pull-messages", fleet_pb2.PullMessagesRequest(node=self.node))
            if status == "200":
                response = fleet_pb2.PullMessagesResponse.FromString(answer)
                for told, tree in zip(response.messages_list, response.message_object_trees, strict=True):
                    self.trees[told.metadata.message_id] = tree
                    self._take(message_from_proto(told))
            if self._over.wait(0.3):
                return

    def _take(self, message: Any) -> None:
        """Say that it is ready, so that it is asked for reports; keep those questions."""
        self._heard += message.metadata.message_type == wire.READY_QUERY
        if message.metadata.message_type == wire.READY_QUERY and self._heard % 3:
            self.reply(message, RecordDict({wire.CONFIG: ConfigRecord({"partition_id": PARTITION, "why_not": ""})}))
        else:
            with self._lock:
                self.asked.append(message)

    def question(self) -> Any:
        """Return a question of the server: one that was not answered, if there is one; waits for the first."""
        wait_until(lambda: self.asked, "a question", WAIT, every=0.05)
        with self._lock:
            fresh = [one for one in self.asked if one.metadata.message_id not in self._answered]
            chosen = fresh[-1] if fresh else self.asked[-1]
            self._answered.add(chosen.metadata.message_id)
            return chosen

    def reply(
        self, asked: Any, content: RecordDict, *, spoil: Callable[[bytes], bytes] = bytes, upload: bool = True,
        tree: Tree | None = None, work: float = 1.0, **changes: Any,
    ) -> str:  # fmt: skip
        """Announce a reply and upload its parts.

        `tree`: the parts in place of its own; `changes` are what its metadata say beside the truth.
        """
        about = asked.metadata
        message = flower.reply_from(
            node_id=about.dst_node_id, message_type=about.message_type, reply_to=about.message_id, content=content,
            error=None,
        )  # fmt: skip
        truth = {"run_id": about.run_id, "created_at": time.time(), "ttl": 20.0, "group_id": about.group_id}
        for name, value in {**truth, **changes}.items():
            message.metadata.__dict__[f"_{name}"] = value
        message.metadata.__dict__["_message_id"] = tree.object_id if tree else message.object_id
        parts = get_all_nested_objects(message)
        request = fleet_pb2.PushMessagesRequest(
            node=self.node, messages_list=[message_to_proto(remove_content_from_message(message))],
            message_object_trees=[tree or get_object_tree(message)], clientapp_runtime_list=[work],
        )  # fmt: skip
        status, answer = self.call("push-messages", request)
        if status != "200" or not upload:
            return status
        response = fleet_pb2.PushMessagesResponse.FromString(answer)
        for name in response.objects_to_push:
            part = message_pb2.PushObjectRequest(
                node=self.node, run_id=about.run_id, session_id=response.session_id, object_id=name,
                object_content=spoil(parts[name].deflate()),
            )  # fmt: skip
            status = self.call("push-object", part)[0]
        return status if response.objects_to_push else "200, not taken"


PARTITION = 3  # of the hostile node


# --- what a stranger does ---------------------------------------------------------------------------------------------


def unsigned_body(me: Attacker, number: int) -> str:
    return me.post("/v1/fleet/push-object", bytes(PART), {})[0]


def huge_body(me: Attacker, number: int) -> str:
    return me.post("/v1/fleet/push-object", b"", me.signed(), size=300 * MIB)[0]


def forged_signature(me: Attacker, number: int) -> str:
    headers = {name: b64encode(os.urandom(97)).decode() for name in me.signed()} | {"flwr-timestamp": now().isoformat()}
    return me.post("/v1/fleet/push-object", bytes(PART), headers)[0]


def key_of_his_own(me: Attacker, number: int) -> str:
    return me.post(f"/v1/fleet/{list(CALLS)[number % len(CALLS)]}", bytes(MIB - 1000), me.signed())[0]


def letting_himself_in(me: Attacker, number: int) -> str:
    if number % 2:
        return me.call("register-node", fleet_pb2.RegisterNodeFleetRequest(public_key=me.public))[0]
    return me.call("activate-node", fleet_pb2.ActivateNodeRequest(public_key=me.public, heartbeat_interval=30.0))[0]


def long_key(me: Attacker, number: int) -> str:
    return me.post(f"/v1/fleet/{('register', 'activate')[number % 2]}-node", bytes(900_000), me.signed())[0]


def odd_path(me: Attacker, number: int) -> str:
    return me.post(ODD_PATHS[number % len(ODD_PATHS)], b"x" * 100, me.signed())[0]


def many_headers(me: Attacker, number: int) -> str:
    return me.post("/v1/fleet/pull-messages", b"", {**me.signed(), **{f"x-{i}": "y" * 900 for i in range(100)}})[0]


def no_http(me: Attacker, number: int) -> str:
    with suppress(OSError), me.connect() as connection:
        connection.sendall(os.urandom(2000))
        return connection.recv(100).decode("latin-1").partition("\r")[0].removeprefix("HTTP/1.1 ")[:3] or "closed"
    return "closed"


def no_tls(me: Attacker, number: int) -> str:
    with socket.create_connection((me.proxy, PORT), timeout=60, source_address=(me.source, 0)) as connection:
        connection.sendall(b"POST /v1/fleet/push-object HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        return connection.recv(100).decode("latin-1").removeprefix("HTTP/1.1 ")[:3] or "closed"


# --- what the holder of a node key does -------------------------------------------------------------------------------


def replayed_headers(me: Attacker, number: int) -> str:
    headers = me.used_headers()
    if number % 2:
        leave = fleet_pb2.DeactivateNodeRequest(node_id=me.node.node_id)
        return me.post("/v1/fleet/deactivate-node", leave.SerializeToString(), headers)[0]
    return me.post("/v1/fleet/pull-messages", me.pull(), headers)[0]


def call_for_another(me: Attacker, number: int) -> str:
    other = node_pb2.Node(node_id=me.node.node_id ^ 1)
    return me.call("pull-messages", fleet_pb2.PullMessagesRequest(node=other))[0]


def random_bytes(me: Attacker, number: int) -> str:
    return me.post(f"/v1/fleet/{list(CALLS)[number % len(CALLS)]}", os.urandom(50_000), me.signed())[0]


def part_that_nobody_awaits(me: Attacker, number: int) -> str:
    run = me.question().metadata.run_id
    part = message_pb2.PushObjectRequest(
        node=me.node, run_id=run, session_id="x", object_id=os.urandom(32).hex(), object_content=bytes(PART)
    )
    return me.call("push-object", part)[0]


def reply_for_another(me: Attacker, number: int) -> str:
    return me.reply(me.question(), RecordDict(), src_node_id=me.node.node_id ^ 1)


def instruction_of_the_server(me: Attacker, number: int) -> str:
    names = {"src_node_id": 1, "dst_node_id": me.node.node_id, "reply_to_message_id": ""}
    return me.reply(me.question(), RecordDict(), **names)


def reply_to_nobody(me: Attacker, number: int) -> str:
    return me.reply(me.question(), RecordDict(), reply_to_message_id=os.urandom(32).hex())


def unreadable_reply(me: Attacker, number: int) -> str:
    spoils: list[Callable[[bytes], bytes]] = [
        lambda part: b"\xff" * 23, lambda part: part[:-1], lambda part: part.replace(b"Record", b"Discord"),
        lambda part: part + b"\x00", lambda part: b"",
    ]  # fmt: skip
    content = RecordDict({wire.CONFIG: ConfigRecord({"number": number})})
    return me.reply(me.question(), content, spoil=spoils[number % len(spoils)])


def announced_and_never_sent(me: Attacker, number: int) -> str:
    return me.reply(me.question(), RecordDict({wire.CONFIG: ConfigRecord({"number": number})}), upload=False)


def huge_metrics(me: Attacker, number: int) -> str:
    return me.reply(me.question(), RecordDict({wire.METRICS: MetricRecord({"loss": [float(number)] * 100_000})}))


def foreign_partition(me: Attacker, number: int) -> str:
    said = ConfigRecord({"partition_id": (0, 1, 2, 4, -1, 10**12)[number % 6], "why_not": ""})
    return me.reply(me.question(), RecordDict({wire.CONFIG: said}))


def long_words(me: Attacker, number: int) -> str:
    said = ConfigRecord({"partition_id": PARTITION, "why_not": "\x1b]0;owned\x07" + "x" * 100_000})
    return me.reply(me.question(), RecordDict({wire.CONFIG: said}))


# --- what the holder of a node key says of the names of others --------------------------------------------------------


def name() -> str:
    return os.urandom(32).hex()


def queries(number: int) -> list[Any]:
    """Return records that the server will send: the questions of some rounds."""
    first = 1 + number % 30
    said = [{"round_number": first + later, "attempt": attempt} for later in range(8) for attempt in (1, 2, 3)]
    return [ConfigRecord(each) for each in said]


def answers(number: int) -> list[Any]:
    """Return records, and what holds them, that the other nodes will send."""
    contents = [RecordDict({wire.CONFIG: ConfigRecord({"partition_id": i, "why_not": ""})}) for i in range(PARTITION)]
    return [part for content in (*contents, RecordDict()) for part in get_all_nested_objects(content).values()]


def holding(*children: Tree, root: str = "") -> Tree:
    """Return the tree of a reply that holds some records."""
    return Tree(object_id=root or name(), children=[Tree(object_id=name(), children=children)])


def lie(record: Any) -> Tree:
    """Return the object of a record that another node sends, with a child that does not exist."""
    return Tree(object_id=record if isinstance(record, str) else record.object_id, children=[Tree(object_id=name())])


def names_of_the_next_questions(me: Attacker, number: int) -> str:
    tree = holding(*map(lie, queries(number)))
    return me.reply(me.question(), RecordDict(), tree=tree, upload=False)


def names_of_the_next_answers(me: Attacker, number: int) -> str:
    return me.reply(me.question(), RecordDict(), tree=holding(*map(lie, answers(number))), upload=False)


def names_of_the_next_questions_and_their_bytes(me: Attacker, number: int) -> str:
    asked = me.question()
    record = queries(number)[0]
    me.reply(asked, RecordDict(), tree=holding(lie(record)), upload=False)
    part = message_pb2.PushObjectRequest(
        node=me.node, run_id=asked.metadata.run_id, object_id=record.object_id, object_content=record.deflate()
    )  # of no session, which Flower takes for part of any
    return me.call("push-object", part)[0]


def names_of_what_it_is_asked(me: Attacker, number: int) -> str:
    asked = me.question()
    parts = [part.object_id for part in iterate_object_tree(me.trees[asked.metadata.message_id])]
    return me.reply(asked, RecordDict(), tree=holding(*map(lie, parts)), upload=False)


def named_as_its_question(me: Attacker, number: int) -> str:
    asked = me.question()
    return me.reply(asked, RecordDict(), tree=me.trees[asked.metadata.message_id])


def named_as_a_record(me: Attacker, number: int) -> str:
    tree = holding(root=queries(number)[0].object_id)
    return me.reply(me.question(), RecordDict(), tree=tree, upload=False)


def another_tree_for_the_same_reply(me: Attacker, number: int) -> str:
    asked = me.question()
    root = asked.metadata.message_id[::-1]
    me.reply(asked, RecordDict(), tree=holding(lie(name()), root=root), upload=False)
    return me.reply(asked, RecordDict(), tree=holding(lie(name()), root=root), upload=False)


def replies_that_hold_one_another(me: Attacker, number: int) -> str:
    roots = name(), name()
    for mine, other in (roots, roots[::-1]):
        status = me.reply(me.question(), RecordDict(), tree=holding(Tree(object_id=other), root=mine), upload=False)
    return status


def many_names(me: Attacker, number: int) -> str:
    count = (14_000, 5_000, 4_000)[number % 3]
    tree = holding(Tree(object_id=name(), children=[Tree(object_id=name()) for _ in range(count)]))
    return me.reply(me.question(), RecordDict(), tree=tree, upload=False)


def many_levels(me: Attacker, number: int) -> str:
    tree = holding()
    for _ in range(40):
        tree = holding(tree)
    return me.reply(me.question(), RecordDict(), tree=tree, upload=False)


def names_that_are_none(me: Attacker, number: int) -> str:
    bad = ("", "x" * 64, "A" * 64, "tree of " + name(), "\x00" * 64, "a" * 100_000)[number % 6]
    return me.reply(me.question(), RecordDict(), tree=holding(Tree(object_id=bad)), upload=False)


def no_time(me: Attacker, number: int) -> str:
    about = ({"created_at": math.nan}, {"ttl": math.nan}, {"ttl": math.inf}, {"created_at": -math.inf})[number % 4]
    return me.reply(me.question(), RecordDict(), **about)


def work_without_end(me: Attacker, number: int) -> str:
    return me.reply(me.question(), RecordDict(), work=(math.nan, math.inf, -1e308, 1e308)[number % 4])


# --- connections that stay open ---------------------------------------------------------------------------------------


def hanging(me: Attacker, times: int, begin: Callable[[Attacker], bytes]) -> Counter[str]:
    """Open connections, say the beginning of a request on each, and wait until the proxy has had enough."""
    ends: Counter[str] = Counter()
    while left := times - ends.total():
        connections = []
        for _ in range(min(left, HANGING)):
            try:
                connections.append(me.connect())
                connections[-1].sendall(begin(me))
            except OSError:
                ends["closed"] += 1
        end = time.monotonic() + 40  # longer than the proxy waits
        for connection in connections:
            ready, _, _ = select.select([connection], [], [], max(end - time.monotonic(), 0))
            with suppress(OSError), connection:
                said = connection.recv(100).decode("latin-1").removeprefix("HTTP/1.1 ")[:3] if ready else "left open"
            ends[said or "closed"] += 1
    return ends


def half_a_head(me: Attacker) -> bytes:
    return b"POST /v1/fleet/pull-messages HTTP/1.1\r\nHost: x\r\nflwr-"


def half_a_body(me: Attacker) -> bytes:
    given = {"content-type": "application/protobuf", **me.signed()}
    headers = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    head = f"POST /v1/fleet/push-object HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {PART}\r\n\r\n"
    return head.encode() + bytes(10_000)


# --- the table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """One kind of hostile request: who makes it, and how."""

    has_key: bool
    make: Callable[[Attacker, int], str] | None = None
    hang: Callable[[Attacker], bytes] | None = None  # in place of `make`: the beginning of a request


NAMES = {
    "names of the server's next questions": Kind(True, names_of_the_next_questions),
    "the same, and their bytes": Kind(True, names_of_the_next_questions_and_their_bytes),
    "names of other nodes' answers": Kind(True, names_of_the_next_answers),
    "names of what it is asked": Kind(True, names_of_what_it_is_asked),
    "a reply named as its question": Kind(True, named_as_its_question),
    "a reply named as a record": Kind(True, named_as_a_record),
    "another tree for the same reply": Kind(True, another_tree_for_the_same_reply),
    "replies that hold one another": Kind(True, replies_that_hold_one_another),
    "many names": Kind(True, many_names),
    "many levels": Kind(True, many_levels),
    "names that are none": Kind(True, names_that_are_none),
    "a reply of no time": Kind(True, no_time),
    "work without end": Kind(True, work_without_end),
}
"""Lies in the announcement of a reply; hardly any of its parts is ever sent."""

KINDS = {
    "a body that nobody has signed": Kind(False, unsigned_body),
    "a body of 300 MB": Kind(False, huge_body),
    "a forged signature": Kind(False, forged_signature),
    "the signature of a key that was not let in": Kind(False, key_of_his_own),
    "letting himself in": Kind(False, letting_himself_in),
    "an odd path": Kind(False, odd_path),
    "90 kB of headers": Kind(False, many_headers),
    "no HTTP": Kind(False, no_http),
    "no TLS": Kind(False, no_tls),
    "half a head, then nothing": Kind(False, hang=half_a_head),
    "half a body of a stranger, then nothing": Kind(False, hang=half_a_body),
    "a key of 900 kB": Kind(False, long_key),
    "headers used again": Kind(True, replayed_headers),
    "a call for another node": Kind(True, call_for_another),
    "random bytes": Kind(True, random_bytes),
    "a part that nobody awaits": Kind(True, part_that_nobody_awaits),
    "a reply in another node's name": Kind(True, reply_for_another),
    "an instruction in the server's name": Kind(True, instruction_of_the_server),
    "a reply to nobody": Kind(True, reply_to_nobody),
    "a reply that cannot be read": Kind(True, unreadable_reply),
    "a reply announced and never sent": Kind(True, announced_and_never_sent),
    "100,000 metrics": Kind(True, huge_metrics),
    "another node's partition": Kind(True, foreign_partition),
    "100 kB of reasons": Kind(True, long_words),
    **NAMES,
    "half a body, then nothing": Kind(True, hang=half_a_body),
}


def attack(me: Attacker, kind: Kind, numbers: range, *, at_once: int = 4) -> Counter[str]:
    """Make the requests of a kind that have these numbers; return how many were answered in which way."""
    if kind.hang:
        return hanging(me, len(numbers), kind.hang)
    assert kind.make
    make = kind.make
    with ThreadPoolExecutor(at_once) as pool:
        return Counter(pool.map(lambda number: make(me, number), numbers))
