"""Nodes that sign with keys of their own, which their peers list."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_public_key,
)

from fedlearn.core.errors import Refused, UsageError
from fedlearn.engine.deployment.deployment_keys import make_keys, release_sums, rotate_node_key
from fedlearn.secure.demands import Demands
from fedlearn.secure.key_agreement import NODE_KEY, NodeKey, is_signed, listed_keys, node_keys_in
from fedlearn.secure.protocol_messages import Roster
from tests.unit.secure.test_attacks import FIVE, Sum, clear


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return the keys of a deployment of six nodes, and the lines of their public keys."""
    folder = tmp_path_factory.mktemp("keys")
    make_keys(folder, clients=6)
    public = [(folder / "public" / "nodes" / f"{each}.pub").read_bytes() for each in range(6)]
    return [NodeKey((folder / "nodes" / str(each)).read_bytes()) for each in range(6)], public


def test_the_keys_of_a_deployment_sign_and_are_known_by_their_public_files(made):
    keys, public = made
    assert node_keys_in(b"# peers\n\n" + b"\n".join(public)) == {key.public for key in keys}
    assert {len(key.public) for key in keys} == {NODE_KEY}
    signature = keys[0].sign(b"said")
    assert signature == NodeKey(keys[0].file).sign(b"said")  # the same after a start
    assert is_signed(b"said", signature, keys[0].public)
    assert not is_signed(b"other", signature, keys[0].public)
    assert not is_signed(b"said", signature, keys[1].public)
    assert not is_signed(b"said", b"", keys[0].public) and not is_signed(b"said", signature, b"\2" * NODE_KEY)
    assert keys[0].file.decode().splitlines()[1] not in repr(keys[0])


def first_keys_in(text):
    return {each.key: each.first for each in listed_keys(text)}


def test_a_key_that_follows_another_one_is_the_same_node(tmp_path):
    make_keys(tmp_path, clients=2)
    public = tmp_path / "public" / "nodes" / "1.pub"
    first = NodeKey((tmp_path / "nodes" / "1").read_bytes()).public
    for times in (1, 2):
        rotate_node_key(tmp_path, 1)
        key = NodeKey((tmp_path / "nodes" / "1").read_bytes()).public
        assert first_keys_in(public.read_bytes()) == {key: first} and key != first
        assert (tmp_path / "nodes" / f"1.{times}").exists()
    make_keys(tmp_path, clients=2)  # a later call leaves both as they are
    assert first_keys_in(public.read_bytes()) == {key: first}
    assert load_ssh_public_key(public.read_bytes())  # as Flower reads it
    other = (tmp_path / "public" / "nodes" / "0.pub").read_bytes().split()
    stolen = b" ".join([*other, *public.read_bytes().split()[3:]])
    with pytest.raises(ValueError, match="has not signed it"):
        first_keys_in(stolen)
    for spoiled in (b"follows=", b"follows=zz:zz", b"follows=00", b"follows=a:b:c"):
        with pytest.raises(ValueError):
            first_keys_in(b" ".join([*other, spoiled]))


def test_a_node_that_has_left_is_one_of_the_colluders_and_only_its_own_key_says_so(tmp_path):
    make_keys(tmp_path, clients=3)
    folder = tmp_path / "public" / "nodes"
    rotate_node_key(tmp_path, 1)
    for _ in range(2):  # the second changes nothing
        release_sums(tmp_path, 1)
    make_keys(tmp_path, clients=3)
    lines = [(folder / f"{each}.pub").read_bytes() for each in range(3)]
    found = listed_keys(b"".join(lines))
    assert [each.has_left for each in found] == [False, True, False] and found[1].key != found[1].first
    assert node_keys_in(b"".join(lines), colluders=1) == {found[0].key, found[2].key}
    with pytest.raises(ValueError, match="1 clients have left, each of which counts as a colluder"):
        node_keys_in(b"".join(lines))
    assert load_ssh_public_key(lines[1])  # as Flower reads it
    released = next(word for word in lines[1].split() if word.startswith(b"releases="))
    for stolen in (released, b"releases=00", b"releases="):
        with pytest.raises(ValueError, match="has not signed it"):
            listed_keys(lines[0].strip() + b" " + stolen)
    with pytest.raises(ValueError):
        listed_keys(lines[0].strip() + b" releases=zz")
    (tmp_path / "nodes" / "2").unlink()
    with pytest.raises(UsageError, match=r"--release 2: .*nodes/2 is missing: nothing can sign"):
        release_sums(tmp_path, 2)


@pytest.mark.parametrize("curve", [ec.SECP256R1(), None])
def test_keys_of_other_kinds_are_no_node_keys(curve):
    if curve is None:
        with pytest.raises(ValueError):
            node_keys_in(b"no key at all")
        return
    key = ec.generate_private_key(curve)
    with pytest.raises(ValueError, match="P-384"):
        node_keys_in(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    with pytest.raises(ValueError, match="P-384"):
        _ = NodeKey(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())).public


def test_listed_nodes_sum_and_one_that_is_not_listed_is_refused(made):
    keys, _ = made
    listed = Demands(peers=frozenset(key.public for key in keys[:5]), fewest=5)
    run = Sum(signers=keys[:5], demands=listed).shared().masked(lost=[4]).signed()
    assert (run.unmasked().total == clear([0, 1, 2, 3])).all()
    stranger = Sum(signers=[*keys[:4], keys[5]], demands=listed)
    with pytest.raises(Refused, match="unlisted-peer"):
        stranger.nodes[0].share(stranger.server.roster)
    unsigned = Sum(demands=listed)  # keys of an attempt, which a server relays or makes
    with pytest.raises(Refused, match="unlisted-peer"):
        unsigned.nodes[0].share(Roster(unsigned.q, FIVE, tuple(unsigned.adverts)))
