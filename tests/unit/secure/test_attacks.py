"""Attacks on secure sums that were thought of by name; `tests/secure_faults` draws others."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from fedlearn.core.errors import Refused, UsageError
from fedlearn.secure import key_agreement, texts
from fedlearn.secure.demands import Demands
from fedlearn.secure.key_agreement import Signer
from fedlearn.secure.level import Level, chosen
from fedlearn.secure.node_protocol import SecureNode
from fedlearn.secure.protocol_messages import Delivered, Roster, Survivors, Unmasking
from fedlearn.secure.question import Question
from fedlearn.secure.server_protocol import Missing, SecureServer, Summed, check_advertised

BITS, ENTRIES = 20, 4
FIVE = Level(5, 4, 3, colluders=1)
SEVEN = Level(7, 6, 4, colluders=1)


class Sum:
    """One attempt among some nodes, step by step; what each step needs is on hand."""

    def __init__(self, level=FIVE, *, attempt=1, nodes=None, signers=None, demands=None):
        self.level, self.q = level, Question("run", 1, attempt)
        signers = signers or [None] * level.nodes
        self.nodes = nodes or [
            SecureNode("run", each, demands=demands or Demands(fewest=level.nodes), signer=signers[each])
            for each in range(level.nodes)
        ]
        self.adverts = [node.advertise(self.q) for node in self.nodes]
        self.server = SecureServer(self.q, level, self.adverts, count=ENTRIES, bits=BITS)

    def shared(self):
        for node in self.nodes:
            self.server.shared(node.share(self.server.roster))
        self.delivered = self.server.deliver()
        return self

    def masked(self, *, lost=()):
        for each, node in enumerate(self.nodes):
            if each not in lost:
                self.server.masked(node.mask(self.delivered[each], values(each), BITS))
        self.survivors = self.server.survivors()
        return self

    def signed(self, *, silent=()):
        for each in self.survivors:
            if each not in silent:
                self.server.signed(self.nodes[each].sign(self.survivors[each]))
        self.unmasking = self.server.unmasking()
        return self

    def unmasked(self, *, lost=()):
        for each, unmasking in self.unmasking.items():
            if each not in lost:
                self.server.unmasked(self.nodes[each].unmask(self.server.agreed, unmasking))
        return self.server.summed()


def values(each):
    return np.arange(ENTRIES, dtype=np.uint32) * 1000 + each


def clear(nodes):
    return sum(values(each) for each in nodes)


def test_a_sum_with_lost_and_silent_nodes_is_that_of_the_survivors():
    found = Sum(SEVEN).shared().masked(lost=[2]).signed(silent=[0]).unmasked()
    assert isinstance(found, Summed) and found.nodes == (0, 1, 3, 4, 5, 6)
    assert (found.total == clear(found.nodes)).all()


def test_a_sparse_graph_sums_too():
    level = chosen(30, colluders=2, dropouts=0.1).level
    assert not level.is_complete
    found = Sum(level).shared().masked(lost=[3]).signed(silent=[8]).unmasked(lost=[5])
    assert (found.total == clear(found.nodes)).all() and len(found.nodes) == 29


def test_below_the_threshold_there_is_no_sum():
    assert isinstance(Sum().shared().masked(lost=[0, 1]).survivors, Missing)
    stopped = Sum().shared().masked().signed(silent=[0, 1])
    assert isinstance(stopped.unmasking, Missing)
    assert isinstance(Sum().shared().masked().signed().unmasked(lost=[0, 1, 2]), Missing)


def test_a_node_signs_no_set_with_less_noise_than_it_needs():
    run = Sum(SEVEN, demands=Demands(fewest=7, summed=6)).shared().masked(lost=[2])
    assert isinstance(run.signed().unmasked(), Summed)
    few = Sum(SEVEN, demands=Demands(fewest=7, summed=6)).shared().masked(lost=[2, 3])
    with pytest.raises(Refused, match="too-few-survivors"):
        few.nodes[0].sign(few.survivors[0])


# --- different survivor sets to different nodes


def test_two_sets_of_survivors_never_both_get_their_signatures():
    run = Sum().shared().masked()
    sharers = run.server.agreed.sharers
    first, second = (Survivors(run.q, sharers, reported) for reported in ((0, 1, 2, 3), (0, 1, 2, 3, 4)))
    signatures = {each: run.nodes[each].sign(first if each < 2 else second).signature for each in range(4)}
    for each, survivors in ((0, first), (3, second)):
        with pytest.raises(Refused, match="another-set"):
            run.nodes[each].sign(second if survivors is first else first)
        with pytest.raises(Refused, match="bad-signature"):
            run.nodes[each].unmask(survivors, Unmasking(run.q, signatures))
        own = {other: signatures[other] for other in ((0, 1) if each < 2 else (2, 3))}
        with pytest.raises(Refused, match="too-few-signatures"):
            run.nodes[each].unmask(survivors, Unmasking(run.q, own))


def test_different_sharers_to_different_nodes_reveal_no_seed():
    run = Sum().shared()
    near = run.delivered[0]
    fewer = Delivered(
        run.q, (0, 1, 2, 3),
        {each: near.envelopes[each] for each in (1, 2, 3)}, {each: near.commitments[each] for each in (1, 2, 3)},
    )  # fmt: skip
    run.nodes[0].mask(fewer, values(0), BITS)
    for each in range(1, 5):
        run.nodes[each].mask(run.delivered[each], values(each), BITS)
    survivors = Survivors(run.q, (0, 1, 2, 3, 4), (0, 1, 2, 3, 4))
    with pytest.raises(Refused, match="wrong-sharers"):
        run.nodes[0].sign(survivors)
    for each in range(1, 5):
        run.nodes[each].sign(survivors)
        with pytest.raises(Refused, match="wrong-sharers"):
            run.nodes[each].sign(Survivors(run.q, (0, 1, 2, 3), (0, 1, 2, 3)))


# --- keys


def test_old_keys_are_refused():
    old = Sum()
    run = Sum(attempt=2, nodes=old.nodes)
    assert not {each.mask for each in old.adverts} & {each.mask for each in run.adverts}
    stale = [old.adverts[1] if each == 1 else run.adverts[each] for each in range(5)]
    with pytest.raises(Refused, match="wrong-attempt"):
        run.nodes[0].share(Roster(run.q, FIVE, tuple(stale)))
    with pytest.raises(Refused, match="wrong-attempt"):
        check_advertised(old.adverts[1], run.q, [])


def test_old_keys_by_a_new_name_are_refused_where_nodes_sign():
    signers = [Signer(key_agreement.fresh_secret()) for _ in range(5)]
    demands = Demands(peers=frozenset(each.public for each in signers))
    old = Sum(signers=signers, demands=demands)
    run = Sum(attempt=2, nodes=old.nodes, signers=signers)
    stale = [replace(old.adverts[1], question=run.q) if each == 1 else run.adverts[each] for each in range(5)]
    with pytest.raises(Refused, match="bad-signature"):
        run.nodes[0].share(Roster(run.q, FIVE, tuple(stale)))


def test_a_nodes_own_key_given_back_is_refused():
    run = Sum()
    for name in ("cipher", "mask", "verify"):
        forged = replace(run.adverts[1], **{name: getattr(run.adverts[0], name)})
        with pytest.raises(Refused, match="twice"):
            run.nodes[0].share(Roster(run.q, FIVE, (run.adverts[0], forged, *run.adverts[2:])))
    other = replace(run.adverts[0], mask=bytes(31) + b"\x09")
    with pytest.raises(Refused, match="with the keys it has sent"):
        run.nodes[0].share(Roster(run.q, FIVE, (other, *run.adverts[1:])))


def test_keys_of_low_order_are_refused_by_the_server_and_by_nodes():
    run = Sum()
    for name in ("cipher", "mask"):
        forged = replace(run.adverts[1], **{name: bytes(32)})
        with pytest.raises(Refused, match="low-order-key"):
            check_advertised(forged, run.q, [])
    forged = replace(run.adverts[1], cipher=bytes(32))
    with pytest.raises(Refused, match="low-order-key"):
        run.nodes[0].share(Roster(run.q, FIVE, (run.adverts[0], forged, *run.adverts[2:])))


# --- cohorts


@pytest.mark.parametrize("real", [1, 2])
def test_a_cohort_with_fewer_real_nodes_than_a_node_demands_is_refused(real):
    nodes = [SecureNode("run", each, demands=Demands(fewest=5)) for each in range(real + 1)]
    question = Question("run", 1, 1)
    adverts = tuple(node.advertise(question) for node in nodes)
    with pytest.raises(UsageError, match="at least 3"):
        Level(2, 1, 1)
    level = Level(3, 2, 2)
    with pytest.raises(Refused, match="too-few-nodes"):
        nodes[0].share(Roster(question, level, (*adverts, adverts[0])[:3]))


def test_a_cohort_of_one_fewer_than_the_threshold_is_refused():
    run = Sum(Level(3, 2, 2), demands=Demands(fewest=3))
    with pytest.raises(Refused, match="too-few-nodes"):
        run.nodes[0].share(Roster(run.q, Level(3, 2, 2), run.adverts[:2]))


@pytest.mark.parametrize("members", [3, 5])
def test_a_roster_of_another_length_than_its_level_says_is_refused_as_such(members):
    run = Sum(demands=Demands(fewest=3))
    with pytest.raises(Refused, match=f"wrong-roster: {members} nodes .* for 4"):
        run.nodes[0].share(Roster(run.q, Level(4, 3, 3), tuple(run.adverts[:members])))


def test_nodes_that_a_server_has_invented_are_refused_where_peers_are_listed():
    signers = [Signer(key_agreement.fresh_secret()) for _ in range(5)]
    demands = Demands(peers=frozenset(each.public for each in signers[:4]))
    run = Sum(signers=signers, demands=demands)
    with pytest.raises(Refused, match="unlisted-peer: nodes 4"):
        run.nodes[0].share(run.server.roster)


def test_keys_that_a_server_puts_in_place_of_a_peers_are_refused():
    signers = [Signer(key_agreement.fresh_secret()) for _ in range(5)]
    run = Sum(signers=signers, demands=Demands(peers=frozenset(each.public for each in signers)))
    swapped = replace(run.adverts[1], cipher=key_agreement.KeyPair.derived(bytes(32), b"server").public)
    with pytest.raises(Refused, match="bad-signature"):
        run.nodes[0].share(Roster(run.q, FIVE, (run.adverts[0], swapped, *run.adverts[2:])))


@pytest.mark.parametrize(
    ("demands", "offered"),
    [(Demands(colluders=2), Level(20, 8, 6, colluders=1)), (Demands(colluders=1), Level(20, 8, 5, colluders=4))],
)
def test_a_level_below_what_a_node_demands_is_refused(demands, offered):
    run = Sum(offered, demands=demands)
    with pytest.raises(Refused, match="level-too-low"):
        run.nodes[0].share(run.server.roster)


# --- unmasking


def test_unmasking_is_asked_before_its_time_and_refused():
    run = Sum()
    survivors = Survivors(run.q, (0, 1, 2, 3, 4), (0, 1, 2, 3, 4))
    with pytest.raises(Refused, match="no-roster"):
        run.nodes[0].unmask(survivors, Unmasking(run.q, {}))
    run.shared()
    with pytest.raises(Refused, match="another-set"):
        run.nodes[0].unmask(survivors, Unmasking(run.q, {}))
    with pytest.raises(Refused, match="wrong-sharers"):  # it has not reported
        run.nodes[0].sign(survivors)
    run.masked()
    with pytest.raises(Refused, match="another-set"):  # it has not signed
        run.nodes[0].unmask(run.server.agreed, Unmasking(run.q, {}))
    with pytest.raises(Refused, match="too-early"):
        run.server.to_bytes()
    with pytest.raises(Refused, match="too-early"):
        run.server.summed()


def test_unmasking_is_asked_after_the_round_and_refused():
    run = Sum().shared().masked().signed()
    run.nodes[0].forget(run.q)
    with pytest.raises(Refused, match="wrong-attempt"):
        run.nodes[0].unmask(run.server.agreed, run.unmasking[0])
    with pytest.raises(Refused, match="round-is-over"):
        run.nodes[0].advertise(run.q)


def test_unmasking_is_asked_twice_and_answered_alike():
    run = Sum().shared().masked(lost=[4]).signed()
    first, again = (run.nodes[0].unmask(run.server.agreed, run.unmasking[0]) for _ in range(2))
    assert first == again
    run.server.unmasked(first)
    with pytest.raises(Refused, match="again"):
        run.server.unmasked(again)


def test_after_an_unmasking_the_round_is_never_run_again():
    run = Sum().shared().masked(lost=[4]).signed()
    run.nodes[0].unmask(run.server.agreed, run.unmasking[0])
    restarted = SecureNode("run", 0, demands=Demands(fewest=5), memory=run.nodes[0].memory)
    for node in (run.nodes[0], restarted):
        for question in (Question("run", 1, 2), Question("run", 1, 9)):
            with pytest.raises(Refused, match="asked-before"):
                node.advertise(question)
    run.nodes[0].forget(run.q)
    with pytest.raises(Refused, match="asked-before"):
        run.nodes[0].advertise(Question("run", 1, 2))
    assert run.nodes[0].advertise(Question("run", 2, 1)).question.round_number == 2
    with pytest.raises(Refused, match="round-is-over"):
        run.nodes[0].advertise(Question("run", 1, 2))


def test_a_node_that_joins_another_attempt_has_forgotten_the_one_before():
    run = Sum().shared().masked().signed()
    Sum(attempt=2, nodes=run.nodes)
    with pytest.raises(Refused, match="wrong-attempt"):
        run.nodes[0].unmask(run.server.agreed, run.unmasking[0])


def test_no_node_reveals_both_kinds_of_share():
    run = Sum().shared().masked(lost=[2]).signed()
    for each, unmasking in run.unmasking.items():
        found = run.nodes[each].unmask(run.server.agreed, unmasking)
        assert set(found.keys) == {2} and set(found.seeds) == {0, 1, 3, 4} - {each}


def test_a_node_that_is_called_reported_and_never_shared_is_refused():
    run = Sum().shared().masked()
    for reported in ((0, 1, 2, 5), (0, 0, 1, 2), (2, 1, 0, 3), (-1, 0, 1, 2), (1, 2, 3, 4)):
        with pytest.raises(Refused, match=r"wrong-positions|wrong-survivors"):
            run.nodes[0].sign(Survivors(run.q, run.server.agreed.sharers, reported))


# --- malformed shares, garbage at unmasking


def test_malformed_shares_are_refused_by_the_server():
    run = Sum()
    shared = run.nodes[0].share(run.server.roster)
    short = {**shared.envelopes, 1: b"short"}
    other = {**{each: shared.envelopes[each] for each in (1, 2, 3)}, 0: shared.envelopes[4]}
    wrong = {**shared.commitments, 1: (b"", b"")}
    for spoiled in (
        replace(shared, envelopes=short), replace(shared, envelopes=other), replace(shared, envelopes={}),
        replace(shared, commitments=wrong), replace(shared, commitments={}), replace(shared, seed=b""),
    ):  # fmt: skip
        with pytest.raises(Refused, match="malformed-shares"):
            run.server.shared(spoiled)
    run.server.shared(shared)
    with pytest.raises(Refused, match="again"):
        run.server.shared(shared)


def test_envelopes_that_do_not_open_cost_no_node_its_round():
    run = Sum()
    for each, node in enumerate(run.nodes):
        shared = node.share(run.server.roster)
        if each == 3:
            shared = replace(shared, envelopes={**shared.envelopes, 0: bytes(80)})
        run.server.shared(shared)
    run.delivered = run.server.deliver()
    found = run.masked(lost=[3]).signed().unmasked()
    assert (found.total == clear([0, 1, 2, 4])).all()  # nodes 1, 2 and 4 hold shares of node 3's key


def test_garbage_at_unmasking_is_replaced_by_other_shares_of_the_same_set():
    run = Sum(SEVEN).shared().masked(lost=[2]).signed()
    for each, unmasking in run.unmasking.items():
        found = run.nodes[each].unmask(run.server.agreed, unmasking)
        if each == 0:
            found = replace(
                found, seeds={k: v ^ 1 for k, v in found.seeds.items()}, keys={2: 5, 99: 1, -1: 1, 10**50: 1}
            )
        run.server.unmasked(found)
    summed = run.server.summed()
    assert (summed.total == clear([0, 1, 3, 4, 5, 6])).all()


def test_too_much_garbage_gives_no_sum():
    run = Sum().shared().masked(lost=[2]).signed()
    for each, unmasking in run.unmasking.items():
        found = run.nodes[each].unmask(run.server.agreed, unmasking)
        run.server.unmasked(replace(found, seeds=dict.fromkeys(found.seeds, 7)) if each < 3 else found)
    assert isinstance(run.server.summed(), Missing)


def test_a_dealer_whose_shares_do_not_fit_its_secret_costs_the_round_and_is_named():
    run = Sum()
    for each, node in enumerate(run.nodes):
        shared = node.share(run.server.roster)
        run.server.shared(replace(shared, seed=bytes(32)) if each == 3 else shared)
    run.delivered = run.server.deliver()
    run.masked().signed()
    with pytest.raises(Refused, match="bad-sharing: node 3"):
        run.unmasked()


def test_shares_from_a_node_that_is_no_survivor_do_not_count():
    run = Sum().shared().masked(lost=[2]).signed()
    found = run.nodes[0].unmask(run.server.agreed, run.unmasking[0])
    for node in (2, 77):
        with pytest.raises(Refused, match=r"not-a-survivor|unknown-node"):
            run.server.unmasked(replace(found, node=node))


# --- reports


def test_reports_that_are_malformed_late_or_repeated_are_refused():
    run = Sum().shared()
    masked = run.nodes[0].mask(run.delivered[0], values(0), BITS)
    for spoiled, reason in (
        (replace(masked, values=masked.values[:-1]), "wrong-shape"),
        (replace(masked, values=masked.values.astype(np.uint64)), "wrong-shape"),
        (replace(masked, values=masked.values | np.uint32(1 << BITS)), "wrong-range"),
        (replace(masked, node=77), "unknown-node"),
        (replace(masked, question=Question("run", 1, 2)), "late"),
    ):
        with pytest.raises(Refused, match=reason):
            run.server.masked(spoiled)
    run.server.masked(masked)
    with pytest.raises(Refused, match="again"):
        run.server.masked(masked)


def test_a_node_masks_one_report_in_an_attempt():
    run = Sum().shared()
    first, again = (run.nodes[0].mask(run.delivered[0], values(0), BITS) for _ in range(2))
    assert (first.values == again.values).all()
    with pytest.raises(Refused, match="another-report"):
        run.nodes[0].mask(run.delivered[0], values(1), BITS)
    with pytest.raises(Refused, match="another-report"):
        run.nodes[0].mask(run.delivered[0], values(0), BITS + 1)


# --- what is kept


def test_a_node_that_starts_again_at_any_time_goes_on():
    run = Sum()

    def again(each):
        run.nodes[each] = SecureNode("run", each, demands=Demands(fewest=5), memory=run.nodes[each].memory)

    again(0)
    run.shared()
    again(1)
    run.masked(lost=[4])
    again(2)
    run.signed()
    again(3)
    assert (run.unmasked().total == clear([0, 1, 2, 3])).all()


def test_a_server_that_was_killed_asks_for_the_very_same_set():
    run = Sum(SEVEN).shared().masked(lost=[4]).signed(silent=[1])
    stored = run.server.to_bytes()
    before, run.server = run.server, SecureServer.from_bytes(stored)
    assert run.server.to_bytes() == stored
    assert run.server.agreed == before.agreed and run.server.unmasking() == before.unmasking()
    assert (run.unmasked().total == clear([0, 1, 2, 3, 5, 6])).all()
    for spoiled in (stored[:-1], stored + b"x", b""):
        with pytest.raises(Refused, match=r"undecodable|wrong-size"):
            SecureServer.from_bytes(spoiled)


def test_no_secret_is_in_what_the_server_stores_or_in_any_repr():
    run = Sum().shared().masked(lost=[4]).signed()
    secrets = [run.nodes[each]._secrets for each in range(5)]
    hidden = [each.mask.secret for each in secrets] + [each.cipher.secret for each in secrets]
    stored = run.server.to_bytes()
    shown = repr([run.nodes, secrets, [node._kept for node in run.nodes], run.server, run.delivered])
    for each, secret in enumerate(hidden):
        assert secret not in stored and secret.hex() not in shown and repr(secret)[2:-1] not in shown, each
    assert all(json.loads(node.memory)["seed"] not in shown for node in run.nodes)
    found = run.nodes[0].unmask(run.server.agreed, run.unmasking[0])
    assert not any(str(share) in repr(found) for share in [*found.seeds.values(), *found.keys.values()])


def test_a_round_that_is_over_leaves_no_secret_in_the_memory():
    run = Sum().shared().masked().signed()
    seed, memory = json.loads(run.nodes[0].memory)["seed"], len(run.nodes[0].memory)
    run.unmasked()
    run.nodes[0].forget(run.q)
    assert seed not in run.nodes[0].memory and len(run.nodes[0].memory) < 250 < memory
    assert json.loads(run.nodes[0].memory)["unmasked"] is True


def test_a_run_knows_no_question_of_another():
    node = SecureNode("run", 0)
    with pytest.raises(Refused, match="wrong-run"):
        node.advertise(Question("other", 1, 1))
    with pytest.raises(Refused, match="wrong-attempt"):
        node.share(Sum().server.roster)


def test_the_roster_that_a_node_keeps_is_the_one_it_has_accepted():
    run = Sum().shared()
    kept = bytes.fromhex(json.loads(run.nodes[0].memory)["roster"])
    assert texts.from_bytes(Roster, kept).digest == run.server.roster.digest
    other = Roster(run.q, FIVE, tuple(reversed(run.adverts)))
    with pytest.raises(Refused, match="another-roster"):
        run.nodes[0].share(other)
