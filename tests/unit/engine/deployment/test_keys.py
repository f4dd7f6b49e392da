"""Keys: accepted by Flower and OpenSSL, made once, readable only by their users."""

from __future__ import annotations

import re
import ssl
import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from fedlearn.engine.deployment.deployment_keys import make_keys
from tests.commands import COMMANDS


@pytest.fixture
def keys(tmp_path):
    make_keys(tmp_path, clients=2, hosts=["fl.example.org", "203.0.113.7"])
    return tmp_path


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_second_call_changes_nothing(keys):
    before = contents(keys)
    make_keys(keys, clients=2, hosts=["fl.example.org", "203.0.113.7"])
    assert contents(keys) == before


def test_more_clients_get_keys_and_the_others_keep_theirs(keys):
    before = contents(keys)
    make_keys(keys, clients=4, hosts=["fl.example.org", "203.0.113.7"])
    after = contents(keys)
    assert {name: after[name] for name in before} == before
    assert sorted(path.name for path in (keys / "nodes").iterdir()) == ["0", "1", "2", "3"]


def test_a_key_that_is_with_its_node_alone_is_not_made_again(keys):
    (keys / "nodes" / "1").unlink()
    before = contents(keys)
    make_keys(keys, clients=2, hosts=["fl.example.org", "203.0.113.7"])
    assert contents(keys) == before


def test_a_new_host_name_makes_a_new_certificate_and_nothing_else(keys):
    before = contents(keys)
    make_keys(keys, clients=2, hosts=["another.example.org"])
    changed = {str(name) for name, data in contents(keys).items() if before.get(name) != data}
    assert changed == {"server/server.crt"}


def test_the_server_certificate_is_of_the_authority_and_names_the_hosts(keys):
    certificate = x509.load_pem_x509_certificate((keys / "server" / "server.crt").read_bytes())
    authority = x509.load_pem_x509_certificate((keys / "public" / "ca.crt").read_bytes())
    certificate.verify_directly_issued_by(authority)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"superlink", "proxy", "localhost", "fl.example.org"} <= set(names.get_values_for_type(x509.DNSName))
    assert {"127.0.0.1", "203.0.113.7"} == {str(each) for each in names.get_values_for_type(x509.IPAddress)}
    ssl.create_default_context(cafile=keys / "public" / "ca.crt")


def test_node_keys_are_pairs_on_a_curve_that_flower_accepts(keys):
    private = load_ssh_private_key((keys / "nodes" / "1").read_bytes(), None)
    public = load_ssh_public_key((keys / "public" / "nodes" / "1.pub").read_bytes())
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert private.public_key() == public
    assert private.curve.name == "secp384r1"


def test_nobody_else_may_read_a_private_key_or_the_secret(keys):
    secret = ["authority/ca.key", "server/server.key", "secret/superexec", "nodes/0", "nodes/1"]
    assert {stat.S_IMODE((keys / name).stat().st_mode) for name in secret} == {0o600}


def test_the_command_makes_keys_and_folders(tmp_path, capsys):
    words = [
        "--folder",
        str(tmp_path / "keys"),
        "--clients",
        "1",
        "--host",
        "a.org,b.org",
        "--give",
        str(tmp_path / "x"),
    ]
    COMMANDS["keys"].main(words, standalone_mode=False)
    assert (tmp_path / "keys" / "nodes" / "0").exists()
    assert (tmp_path / "x").is_dir()
    assert re.search(r"the server's certificate is valid until 20\d\d-\d\d-\d\d\n", capsys.readouterr().out)
