"""`docker compose up`, as processes: the same bytes as a simulation, and closed doors."""

from __future__ import annotations

import os
import re
from hashlib import sha256
from pathlib import Path

import pytest

from fedlearn.config.load import flat_from_file
from fedlearn.engine.deployment.deployment_keys import make_keys
from tests.compose.container import Container
from tests.compose.federation import Federation, why_not

pytestmark = [pytest.mark.network, pytest.mark.skipif(bool(why_not()), reason=why_not())]

START = 300.0  # seconds for a federation to be up on a loaded machine
PATIENCE = 300.0  # seconds for a run
LONG = 3000.0  # seconds for five rounds of CIFAR-10 on ten clients
SHIPPED = Path(__file__).parents[2] / "experiments" / "configs" / "compose.toml"
SETTINGS = {
    "clients": 3, "rounds.total": 2, "rounds.cohort": 0, "rounds.minimum_ready": 1.0, "data.dataset": "digits",
    "model.name": "cnn", "training.local_epochs": 1, "compression.codec": "drop", "compression.keep_ratio": 0.1,
}  # fmt: skip


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    one = Federation(tmp_path_factory.mktemp("compose"))
    try:
        one.up()
        yield one
    finally:
        one.stack.down()


def test_a_run_over_tls_with_node_keys_makes_the_bytes_of_a_simulation(federation, undisturbed):
    run = federation.submit(SETTINGS)
    code = federation.stack.wait(run.job.name, PATIENCE)
    assert code == 0, federation.stack.story(40)
    assert run.summary["status"] == "completed"
    assert sha256((run.folder / "model.safetensors").read_bytes()).hexdigest() == run.summary["model_sha256"]
    assert run.summary["model_sha256"] == undisturbed(SETTINGS).sha
    for name in ("events.jsonl", "metrics.csv", "settings.toml", "summary.json"):
        assert (run.folder / name).stat().st_size


@pytest.mark.parametrize(
    ("schedule", "options", "reports"),
    [("buffered", {"buffer_size": 2}, 2), ("immediate", {"largest_staleness": 4}, 1)],
)
def test_asynchronous_rounds_go_on_while_nodes_train(federation, schedule, options, reports):
    given = {"rounds.schedule": schedule, "rounds.schedule_options": {**options, "in_flight": 3}, "rounds.total": 5}
    run = federation.submit({**SETTINGS, **given, "compression.send": "update"})
    assert federation.stack.wait(run.job.name, PATIENCE) == 0, federation.stack.story(40)
    rounds = [event for event in run.events if event["event"] == "committed"]
    assert [each["reported"] for each in rounds] == [reports] * 5
    assert max(each["staleness_largest"] for each in rounds) >= 1  # who was not among the first goes on
    heard = [event["node"] for event in run.events if event["event"] == "reported"]
    assert len(set(heard)) > 1
    assert run.summary["status"] == "completed"


@pytest.mark.long
@pytest.mark.parametrize(
    ("clients", "shorter"), [(3, {}), (10, {"rounds.total": 2, "training.local_epochs": 1})], ids=["3", "10"]
)
def test_cifar10_with_the_settings_that_ship(clients, shorter, execute, tmp_path):
    data = os.environ.get("FEDLEARN_DATA", "")
    if not (Path(data) / "cifar10" / "train.parquet").exists():
        pytest.skip("FEDLEARN_DATA does not hold cifar10/train.parquet")
    epochs = {"training.local_epochs": 5}  # else `execute` takes one
    given = {"clients": clients, "data.dataset": "cifar10", **epochs, **shorter}
    settings = {**flat_from_file(SHIPPED), **given}
    one = Federation(tmp_path, clients=clients, variables={"FEDLEARN_DATA": str(Path(data).resolve())})
    try:
        one.up()
        run = one.submit(settings)
        assert one.stack.wait(run.job.name, LONG) == 0, one.stack.story(40)
    finally:
        one.stack.down()
    assert run.summary["rounds"] == shorter.get("rounds.total", 5)
    assert run.summary["model_sha256"] == execute(settings).sha


# --- who is kept out -------------------------------------------------------------------------------------------------

NODE = ("flower-supernode", "--superlink=proxy:8443", "--host=127.0.0.1", "--port=9200", "--isolation=process")
TRUSTED = "--root-certificates=/keys/public/ca.crt"


STRANGERS = {
    "no-key": ((TRUSTED,), "All SuperNodes must be registered"),
    "unregistered-key": (
        (TRUSTED, "--auth-supernode-private-key=/faults/stranger/nodes/0"), "Failed to activate SuperNode",
    ),
    "wrong-authority": (("--root-certificates=/faults/stranger/public/ca.crt",), "CERTIFICATE_VERIFY_FAILED"),
    "plain-http-by-flower": (("--insecure", "--max-retries=1"), "400 Bad Request' for url 'http://"),
}  # fmt: skip


@pytest.fixture(scope="module")
def strangers(federation) -> dict[str, Container]:
    """Nodes with foreign keys or a foreign authority, all started at once."""
    folder = federation.faults / "stranger"
    make_keys(folder, clients=1)
    federation.stack.until(lambda: federation.stack["proxy"].healthy, "the proxy", START)
    return {
        name: federation.stack.add("client", command=(*NODE, *words), restart="no", health=None)
        for name, (words, _) in STRANGERS.items()
    }


@pytest.mark.parametrize("name", STRANGERS)
def test_a_node_that_does_not_belong_is_refused_and_told_why(federation, strangers, name):
    node = strangers[name]
    assert federation.stack.wait(node.name, START) == 1, node.read_log()
    assert STRANGERS[name][1] in node.read_log()


def test_a_client_that_speaks_plain_http_is_told_to_use_tls(federation):
    federation.stack.until(lambda: federation.stack["proxy"].healthy, "the proxy", START)
    words = ("--superlink=proxy:8443", "--insecure", "--keys=/keys/nodes", "--claims=/claims")
    command = ("fedlearn", "client", *words)
    client = federation.stack.add("client", command=command, restart="no", health=None)
    assert federation.stack.wait(client.name, START) == 2
    assert re.search(r"error: \S+:8443 speaks TLS: give --root-certificates", client.read_log())


ASK = """
import http.client, ssl, sys
url, authority, size, signature = sys.argv[1:]
place, slash, path = url.removeprefix("https://").partition("/")
proxy = http.client.HTTPSConnection(place, context=ssl.create_default_context(cafile=authority))
proxy.putrequest("POST", slash + path)  # as it stands: nothing is made normal
proxy.putheader("Content-Length", size)
if signature:
    proxy.putheader("flwr-signature", signature)
proxy.endheaders()
if int(size) <= 1000:
    proxy.send(b"x" * int(size))
print(proxy.getresponse().status)
"""


@pytest.mark.parametrize(
    ("path", "size", "signature", "code"),
    [
        ("/v1/control/list-runs", 0, "", 403),
        ("/v1/runtime/acquire-task", 0, "", 403),
        ("/v1/control/list-runs%3f/../../fleet/x", 0, "", 403),
        ("/v1/fleet/../control/list-runs", 0, "", 403),
        ("/v1/fleet/pull-messages?x=1", 0, "", 403),
        ("/v1/fleet/push-object", 300_000_000, "", 401),
        ("/v1/fleet/push-object", 300_000_000, "Zm9v", 413),
        ("/v1/fleet/push-object", 6_000_000, "Zm9v", 401),
        ("/v1/fleet/push-messages", 2_000_000, "Zm9v", 413),
    ],
)
def test_the_proxy_lets_nodes_through_and_nothing_else(federation, path, size, signature, code):
    """No byte of a body is read that is too large, or whose signature is of no registered key."""
    federation.stack.until(lambda: federation.stack["proxy"].healthy, "the proxy", START)
    words = (f"https://proxy:8443{path}", "/keys/public/ca.crt", str(size), signature)
    asked = federation.stack["client-1"].execute(["python", "-c", ASK, *words])
    assert asked.stdout == f"{code}\n", asked.stderr


def test_a_client_cannot_even_see_the_superlink(federation):
    federation.stack.until(lambda: federation.stack["proxy"].healthy, "the proxy", START)
    program = "import urllib.request as u; u.urlopen('https://superlink:8000/v1/control/list-runs', timeout=5)"
    asked = federation.stack["client-1"].execute(["python", "-c", program])
    assert "Name or service not known" in asked.stderr or "Temporary failure in name resolution" in asked.stderr


@pytest.mark.long
def test_nodes_without_the_pretrained_weights_are_sent_them_once(tmp_path, undisturbed, monkeypatch):
    one = Federation(tmp_path, of_server={"PRETRAINED": "0.5"})
    settings = {**SETTINGS, "model.name": "pretrained:net"}
    try:
        one.up()
        run = one.submit(settings)
        assert one.stack.wait(run.job.name, PATIENCE) == 0, one.stack.story(40)
    finally:
        one.stack.down()
    monkeypatch.setenv("PRETRAINED", "0.5")
    simulated = undisturbed(settings)
    assert run.summary["model_sha256"] == simulated.sha
    backbone = 4 * 64 * 193
    assert 3 * backbone < run.summary["bytes_down"] - simulated.summary["bytes_down"] < 3 * backbone + 3_000
