"""The client program: what its flags say of ledger and policy reaches the node."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from flwr.common.config import parse_config_args

from fedlearn.config.policy import Policy
from fedlearn.core.errors import UsageError
from fedlearn.engine.deployment import client_processes
from fedlearn.engine.deployment.claims import Claim
from fedlearn.engine.deployment.client_processes import privacy_config
from fedlearn.engine.deployment.deployment_keys import make_keys
from tests.commands import client_options


def options(*flags):
    return client_options(["fedlearn", "client", "--superlink", "s:1", *map(str, flags)])


def node_config(*flags):
    return parse_config_args([privacy_config(options(*flags))])


def test_flags_and_file_reach_the_node_and_flags_win(tmp_path):
    (tmp_path / "policy.toml").write_text('largest_epsilon = 3\nleast_records = 50\nmodels = ["dp-forest", "cnn"]\n')
    found = node_config(
        "--ledger", tmp_path / "a ledger", "--data-name", "patients", "--policy", tmp_path / "policy.toml",
        "--least-records", 80, "--epsilon-of-a-run", 0.5, "--public-sizes",
    )  # fmt: skip
    assert found["ledger"] == str(tmp_path / "a ledger")
    assert found["data-name"] == "patients"
    assert Policy.of_node(found) == Policy(
        largest_epsilon=3.0, epsilon_of_a_run=0.5, least_records=80, models=("dp-forest", "cnn"), public_sizes=True
    )


def test_owner_says_where_the_node_trains():
    ours = Claim(3, 5, Path("key"), 0)
    assert 'device="cuda:1"' in client_processes.node_config(options("--device", "cuda:1"), ours, "").split()
    assert "device" not in client_processes.node_config(options(), ours, "")
    with pytest.raises(UsageError, match="--device gpu own-data=true: write cpu"):
        options("--device", "gpu own-data=true")


def test_a_list_of_peers_and_the_nodes_own_key_reach_the_node(tmp_path):
    make_keys(tmp_path, clients=3)
    peers = tmp_path / "peers"
    peers.write_bytes(b"\n".join((tmp_path / "public" / "nodes" / f"{each}.pub").read_bytes() for each in range(3)))
    ours = Claim(1, 3, tmp_path / "nodes" / "1", 0)
    given = options("--peers", peers, "--least-peers", 3, "--colluding-peers", 1)
    client_processes.check_peers(given)
    found = parse_config_args([client_processes.node_config(given, ours, "")])
    assert (found["peers"], found["node-key"]) == (str(peers), str(ours.key))
    assert (found["least-peers"], found["colluding-peers"]) == (3, 1)
    assert "peers" not in client_processes.node_config(options(), ours, "")
    (tmp_path / "none").write_text("no key")
    for flags, said in (
        (["--least-peers", 4], "--least-peers: give --peers FILE, too"),
        (["--colluding-peers", 1], "--colluding-peers: give --peers FILE, too"),
        (["--peers", tmp_path / "absent"], "No such file"),
        (["--peers", tmp_path / "none"], "put a line of public/nodes/N.pub for each client"),
        (["--peers", peers, "--least-peers", 4], "it lists 3 clients, --least-peers asks for 4"),
    ):
        with pytest.raises(UsageError, match=said):
            client_processes.check_peers(options(*flags))


def test_flags_win_over_the_environment_and_a_switch_is_true_or_false(tmp_path, monkeypatch):
    said = {"LARGEST_EPSILON": "3", "MODELS": "cnn", "SEEDED_NOISE": "1", "PUBLIC_SIZES": "0", "OWN_DATA": ""}
    for name, value in said.items():
        monkeypatch.setenv(f"FEDLEARN_{name}", value)
    found = Policy.of_node(node_config("--ledger", tmp_path, "--largest-epsilon", 2))
    assert found == Policy(largest_epsilon=2.0, models=("cnn",), seeded_noise=True)
    monkeypatch.setenv("FEDLEARN_PUBLIC_SIZES", "perhaps")
    with pytest.raises(click.UsageError) as refusal:
        node_config("--ledger", tmp_path)
    assert "(env var: 'FEDLEARN_PUBLIC_SIZES'): 'perhaps' is not a valid boolean" in refusal.value.format_message()


def test_the_data_are_called_as_their_folder_unless_they_have_a_name(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLEARN_DATA", str(tmp_path / "ward-7"))
    assert node_config("--ledger", tmp_path, "--largest-epsilon", 1)["data-name"] == "ward-7"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--ledger L", "largest_epsilon: it is missing"),
        ("--ledger L --largest-epsilon 0", "--largest-epsilon 0: expected a number above 0"),
        ("--ledger L --largest-epsilon inf", "--largest-epsilon inf: expected a finite number"),
        (
            "--ledger L --largest-epsilon 1 --least-records -2",
            "--least-records -2: expected a whole number of at least 0",
        ),
        ("--ledger L --largest-epsilon 1 --hours 8-17", "--hours 8-17: expected text"),
        ("--ledger L --largest-epsilon 1 --data-name ../x", "data name '../x'"),
        ("--ledger L --policy nowhere.toml", "nowhere.toml"),
        ("--largest-epsilon 1", "--largest-epsilon: what a client allows binds it by its ledger"),
        ("--public-sizes", "--public-sizes: what a client allows"),
        ("--policy p.toml", "--policy: what a client allows"),
    ],
)
def test_what_cannot_be_meant_is_said_at_the_start(flags, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=said.replace(".", r"\.").replace("/", "/")):
        node_config(*flags.split())


def test_a_damaged_ledger_is_said_at_the_start(tmp_path):
    (tmp_path / "patients.ledger").write_bytes(b"no\n")
    flags = ["--own-data", "--ledger", tmp_path, "--data-name", "patients", "--largest-epsilon", 1]
    with pytest.raises(UsageError, match="the ledger of patients: line 1 was changed"):
        node_config(*flags)


def test_without_a_ledger_nothing_is_said_to_the_node():
    assert node_config("--own-data") == {}


def test_a_missing_certificate_or_key_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UsageError, match=r"^--root-certificates ca.crt: there is no such file; copy public/ca.crt from"
    ):
        client_processes.run(options("--root-certificates", "ca.crt"))
    with pytest.raises(UsageError, match=r"^--keys keys: there is no client key; run fedlearn keys on the server"):
        client_processes.run(options())
