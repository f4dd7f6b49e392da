"""The sets of nodes with which a node has added up its answers: one set for each question, over all runs and servers.

Two sums of one question over sets that differ by one node are that node's own numbers, and so may be three of which no
two do: {1, 2, 3}, {3, 4, 5} and {1, 2, 4, 5} tell what node 3 has added, and no node is in all three. So a node signs
one set for each question. Exact sums of rows, as statistics are, all ask the same: they are one question for each data
set of the owner, whatever their settings are. A question of training is told by its digest
(`client.secure_sums.whole_question`).

An attempt that comes to nothing is made again with other nodes, and nothing of its set is unmasked then: within one
round of one run a node signs the set of each attempt, and the protocol lets it help to unmask one
(`fedlearn.secure.node_protocol`). Sets of other attempts count as signed as long as the node has unmasked none of the round.

**Claim.** Let the owners of all nodes list peers, and let their nodes sign one set for each question. Then all sums of
one question together tell what a single honest node has added to no server, with at most c colluding nodes, where c is
what the owners say (``--colluding-peers``), if each sum has at least c + 2 nodes.

*Proof.* A sum over a set S of a roster of n nodes is unmasked only if more than (n + c) / 2 of the nodes in S have
signed it (`Level.signers`). Let H be the honest nodes in S, and A those of H that have signed: at most c nodes of S are
no honest ones, so that |A| > |H| / 2. Let S_1, ..., S_m be the sets of which sums were unmasked. An honest node signs
one of them, so that A_1, ..., A_m are disjoint. Suppose that a combination of the sums with factors a_i, none of them
zero, tells what node v has added: each other honest node x has the factors of its sets add up to zero. A node x of A_i
other than v is then in a further set S_j, which it has not signed: in H_j without A_j. These have at most |A_j| - 1
members, so that sum |A_i| - 1 <= sum (|A_j| - 1) = sum |A_j| - m, that is m <= 1. One sum alone tells what v has added
only if v is the only honest node in it, and there are c + 2 nodes.

*A node that leaves for good* may release its sums, by a signature in the line of its key. Then it is in no further set,
and sets that differ by it alone count as one. Its numbers are known from then on, as those of a colluding node are: so
it counts as one of the c colluders, and the proof holds for the sets without it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from client.owner.error_disclosure import is_private
from client.owner.peers import listed_by, lists_peers
from client.request import Request
from fedlearn import wire
from fedlearn.config import RunConfig
from fedlearn.config.policy import Policy
from fedlearn.config.tables.reports import GateSettings
from fedlearn.core.errors import Refused
from fedlearn.models import model_spec
from fedlearn.runs.ledgers import LedgerFile
from fedlearn.runs.node_sets import SUFFIX, Sets, SetsOfQuestion, SetsOfRows, SignedSet, named

QUESTION = "sum.question"  # in the node's memory: the digest of the question of training that it has answered last
TELLS_OF_ONE = "tells-of-one"
WITH_BINS = ("statistics", "describe")


def sums_exactly(config: RunConfig) -> bool:
    """Return whether nodes add their numbers as they are, without noise that anybody pays for."""
    row = model_spec(config.model.name)
    return row.sums and not row.is_private


def chooses_rows(config: RunConfig) -> bool:
    """Return whether a setting of the server chooses the rows of an exact sum, or cuts what a node adds.

    Two such sums of one set of nodes may differ by a single row, or tell how many rows one node has.
    """
    data, gate = config.data, config.gate
    return bool(data.node_test_share or data.options) or gate.max_examples != GateSettings().max_examples


def bins_of(config: RunConfig) -> object:
    """Return the number of bins that a run of exact statistics asks for; None of a model that has no bins."""
    if config.model.name not in WITH_BINS:
        return None
    return json.loads(config.model.options or "{}").get("bins", Policy.model_fields["bins"].default)


def groups_of(config: RunConfig) -> set[str]:
    """Return the columns by which a run of an analysis groups records."""
    options = json.loads(config.model.options or "{}")
    return {str(options[role]) for role in ("by", "strata") if options.get(role)}


def may_sum_exactly(request: Request) -> bool:
    """Return whether a real node can keep to its part: its peers are listed, and sets can be remembered."""
    return lists_peers(request) and bool(request.context.node_config.get("ledger"))


def remember_set(request: Request, keys: Collection[bytes]) -> None:
    """Remember the nodes of a sum of a real node that lists its peers, before it signs them.

    Parameters
    ----------
    keys
        The keys by which the nodes are known.

    Raises
    ------
    Refused
        If the node has signed another set for the same question, in another round.
    LedgerDamaged
        If sets that were remembered are gone or changed.
    """
    with _sets_of(request) as sets:
        if sets is None:
            return
        before, new = sets.signed(), _set_of(request, keys)
        if not may_sign(before, new, left=named(each.first for each in listed_by(request) if each.has_left)):
            raise Refused(TELLS_OF_ONE, "with another sum of this question it may tell what a single client has added")
        if new.nodes not in {each.nodes for each in before}:
            sets.add(new)


def may_sign(before: Iterable[SignedSet], new: SignedSet, *, left: frozenset[str] = frozenset()) -> bool:
    """Return whether a node that has signed some sets for a question may sign a further one; some nodes have left."""
    signed = [*(each.nodes for each in before if each.of_round != new.of_round), new.nodes]
    return not tells_of_one([each - left for each in signed])


def settle_set(request: Request, keys: Collection[bytes]) -> None:
    """Remove the sets of other attempts at this round, before the node helps to unmask the sum over these nodes."""
    with _sets_of(request) as sets:
        if sets is None:
            return
        new = _set_of(request, keys)
        if any(each.of_round == new.of_round and each != new for each in sets.signed()):
            sets.settle(new)


def check_sets(request: Request) -> None:
    """Raise `LedgerDamaged` on a real node that would sum exactly and has lost sets that it had remembered."""
    if request.is_real and sums_exactly(request.config):
        SetsOfRows(_file_of(request)).signed()


def tells_of_one(sets: Collection[Collection[str]]) -> bool:
    """Return whether sums over these sets, and others that this node knows nothing of, may tell what one has added.

    >>> tells_of_one([{"a", "b", "c"}, {"a", "b", "c"}]), tells_of_one([{"a", "b", "c"}, {"c", "d", "e"}])
    (False, True)
    """
    return len({frozenset(each) for each in sets}) > 1


@contextmanager
def _sets_of(request: Request) -> Iterator[Sets | None]:
    """Yield the sets that the node remembers of its current question; None where it need not remember any."""
    config = request.config
    if not request.is_real:
        yield None
    elif sums_exactly(config):
        file = _file_of(request)
        with file.alone():
            yield SetsOfRows(file)
    elif lists_peers(request) and QUESTION in request.memory.texts and not is_private(config):
        folder = Path(str(request.context.node_config["memory"]))
        yield SetsOfQuestion(folder / f"{request.partition_id}.sets", bytes.fromhex(request.memory.texts[QUESTION]))
    else:
        yield None


def _set_of(request: Request, keys: Iterable[bytes]) -> SignedSet:
    """Return the nodes of some keys, each by the first key of its owner, in the round that a message is about."""
    first = {each.key: each.first for each in listed_by(request)}
    of_round = sha256(repr((request.config.out, wire.read_at(request.content).round_number)).encode()).hexdigest()
    return SignedSet(of_round, named(first.get(key, key) for key in keys))


def _file_of(request: Request) -> LedgerFile:
    config = request.context.node_config
    return LedgerFile(Path(str(config["ledger"])), str(config.get("data-name", "")), suffix=SUFFIX)
