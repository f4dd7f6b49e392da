"""Whom the owner of a node lists as its peers, whatever a server asks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from flwr.app import MessageType

from client.owner import owner_refusals
from client.owner.peers import demands_of, key_of
from fedlearn.config import RunConfig
from fedlearn.config.tables.privacy import PrivacySettings
from fedlearn.core.errors import UsageError
from fedlearn.core.refusals import REFUSALS
from fedlearn.engine.deployment.deployment_keys import make_keys, release_sums
from fedlearn.plugins.tables import HANDLERS
from fedlearn.secure.key_agreement import node_keys_in


def request_with(node_config, *, sums="masked", kind=MessageType.TRAIN, real=True):
    config = RunConfig(secure={"sums": sums, "colluders": 2})
    message = SimpleNamespace(metadata=SimpleNamespace(message_type=kind))
    return SimpleNamespace(
        context=SimpleNamespace(node_config=node_config), config=config, is_real=real, message=message
    )


@pytest.fixture
def listed(tmp_path):
    make_keys(tmp_path, clients=4)
    lines = [(tmp_path / "public" / "nodes" / f"{each}.pub").read_text() for each in range(4)]
    (tmp_path / "peers").write_text("\n".join(lines))
    own = {"peers": str(tmp_path / "peers"), "node-key": str(tmp_path / "nodes" / "1"), "memory": str(tmp_path)}
    return {**own, "least-peers": 4}


def test_a_node_signs_by_its_own_key_and_demands_the_listed_ones(listed):
    demands, key = demands_of(request_with(listed)), key_of(request_with(listed))
    assert demands.fewest == demands.summed == 4 and len(demands.peers) == 4
    assert key.public in demands.peers == node_keys_in(Path(listed["peers"]).read_bytes())


def test_without_a_list_a_node_goes_by_no_setting_of_a_server_and_a_virtual_one_by_the_runs():
    assert key_of(request_with({})) is None
    assert demands_of(request_with({})).peers is None and demands_of(request_with({})).colluders == 0
    assert demands_of(request_with({}, real=False)).colluders == 2


def test_an_owner_demands_colluders_whatever_the_server_sets(listed):
    demands = demands_of(request_with({**listed, "colluding-peers": 3}))
    assert demands.colluders == 3 and demands.fewest == demands.summed == 5  # two nodes or more are honest
    assert demands_of(request_with(listed)).colluders == 0


def test_a_peer_that_has_left_is_in_no_sum_and_counts_as_a_colluder(listed, tmp_path):
    release_sums(tmp_path, 3)
    lines = [(tmp_path / "public" / "nodes" / f"{each}.pub").read_text() for each in range(4)]
    (tmp_path / "peers").write_text("\n".join(lines))
    with pytest.raises(UsageError, match=r"peers: 1 clients have left, .*take --colluding-peers 1"):
        demands_of(request_with(listed))
    assert len(demands_of(request_with({**listed, "colluding-peers": 1})).peers) == 3


@pytest.mark.parametrize(("colluding", "word"), [(0, ""), (2, ""), (3, "trust-not-allowed")])
def test_a_share_of_noise_wants_masks_listed_peers_and_noise_without_the_owners_colluders(listed, colluding, word):
    request = request_with({**listed, "colluding-peers": colluding})
    request.config = request.config.model_copy(update={"privacy": PrivacySettings(trust="distributed")})
    assert owner_refusals.refused(request) == word
    assert demands_of(request).summed == request.config.fewest_reports
    unlisted, unmasked = request_with({}), request_with(listed, sums="off")
    for other in (unlisted, unmasked):
        other.config = other.config.model_copy(update={"privacy": PrivacySettings(trust="distributed")})
        assert owner_refusals.refused(other) == "trust-not-allowed"


def test_a_node_with_peers_takes_part_in_nothing_but_secure_sums(listed):
    assert owner_refusals.refused(request_with(listed)) == ""
    evaluations = [{"kind": kind} for kind in HANDLERS if kind.startswith(MessageType.EVALUATE)]
    assert len(evaluations) == 3
    for asked in ({"sums": "off"}, {"sums": "unmasked"}, *evaluations):
        assert (
            owner_refusals.refused(request_with(listed, **asked)) == "sums-not-masked" and "sums-not-masked" in REFUSALS
        )
    assert owner_refusals.refused(request_with({}, sums="off")) == ""


def test_a_list_that_cannot_be_read_is_one_line(listed, tmp_path):
    (tmp_path / "peers").write_text("no key")
    with pytest.raises(UsageError, match="--peers"):
        demands_of(request_with(listed))
    with pytest.raises(UsageError, match="--peers"):
        demands_of(request_with({**listed, "peers": str(tmp_path / "none")}))
