"""One schedule: secure sums of a few rounds among a few nodes, where anything goes wrong that can.

Everything is a function of the seed, secrets too, which come from the operating system's generator otherwise: so the
story of a seed is always the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedlearn.core.errors import Refused
from fedlearn.core.seeding import rng_for
from fedlearn.secure import key_agreement
from fedlearn.secure.demands import Demands
from fedlearn.secure.fixed_point import FixedPoint
from fedlearn.secure.key_agreement import Signer
from fedlearn.secure.level import Level, chosen
from fedlearn.secure.masking import pair_seed
from fedlearn.secure.node_protocol import SecureNode
from fedlearn.secure.protocol_messages import Advertised, Delivered, Masked, Roster, Survivors, Unmasked
from fedlearn.secure.question import Question
from fedlearn.secure.server_protocol import Missing, SecureServer, Summed, check_advertised
from tests.secure_faults.knowing import Report, View

ENTRIES = 5
LEVELS = [Level(3, 2, 2), Level(4, 3, 2), Level(5, 4, 3, 1), Level(5, 4, 4, 2), Level(6, 4, 3), Level(7, 4, 4, 2)]
LEVELS += [Level(9, 4, 3), Level(11, 4, 3, 1)]
LEVELS += [chosen(5, dropouts=0.2).level, chosen(8, colluders=1, dropouts=0.25).level]
FATES = {"lost": 3, "answer lost": 3, "late": 3, "doubled": 3, "answer doubled": 3, "vanishes before": 2,
         "vanishes after": 2, "starts again before": 3, "starts again after": 3, "garbled": 1}  # fmt: skip


@dataclass
class Site:
    """A node with the memory that survives it."""

    run: str
    node: int
    demands: Demands
    signer: Signer | None
    memory: str = ""
    gone: bool = False

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start the node anew from its memory."""
        self.machine = SecureNode(self.run, self.node, demands=self.demands, signer=self.signer, memory=self.memory)


@dataclass
class World:
    """What a schedule has come to."""

    seed: int
    level: Level
    rng: random.Random
    point: FixedPoint
    sites: dict[int, Site]
    view: View
    faulty: float  # share of the messages to which something happens
    story: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    committed: dict[int, Summed] = field(default_factory=dict)
    rosters: dict[bytes, Roster] = field(default_factory=dict)
    adverts: dict[tuple[int, int, int], Advertised] = field(default_factory=dict)
    signed: dict[bytes, set[int]] = field(default_factory=dict)  # statement -> ids of the honest nodes that signed it
    accepted: dict[tuple[int, Question], bytes] = field(default_factory=dict)  # the roster that a node has shared with
    unmasked: dict[tuple[int, int], set[bytes]] = field(default_factory=dict)  # node, round -> statements

    @classmethod
    def drawn(cls, seed: int) -> World:
        """Return the world of a seed, before its first round."""
        rng = random.Random(seed)
        level = rng.choice(LEVELS)
        ids = sorted(rng.sample(range(-5, 100), level.nodes))
        signers = {node: Signer(key_agreement.fresh_secret()) if rng.random() < 0.3 else None for node in ids}
        listed = rng.random() < 0.3
        if listed:
            signers = {node: Signer(key_agreement.fresh_secret()) for node in ids}
        peers = frozenset(each.public for each in signers.values() if each) if listed else None
        demands = Demands(peers=peers, fewest=level.nodes, colluders=level.colluders)
        sites = {node: Site(f"run {seed}", node, demands, signers[node]) for node in ids}
        colluders = frozenset(rng.sample(ids, rng.randint(0, level.colluders)))
        point = FixedPoint(clip=1.0, bits=rng.choice([4, 16, 20]), nodes=level.nodes)
        return cls(seed, level, rng, point, sites, View(colluders), rng.choice([0.02, 0.06, 0.2]))

    def say(self, line: str) -> None:
        """Add a line to the story."""
        self.story.append(line)

    def wrong(self, line: str) -> None:
        """Note what must not be."""
        self.broken.append(line)

    def values(self, node: int, round_number: int) -> Any:
        """Return what a node adds to the sum of a round: the same in every attempt."""
        floats = np.random.default_rng([self.seed, node + 1000, round_number]).uniform(-1.3, 1.3, ENTRIES)
        return self.point.encoded(floats, rng_for(self.seed, purpose="rounding", round_number=round_number, node=node))

    # --- a node that is asked something: everything that it answers is seen

    def asked(self, node: int, what: str, *arguments: Any) -> Any:
        """Return a node's answer, None where it refuses; its memory is stored before the answer leaves."""
        site = self.sites[node]
        try:
            answer = getattr(site.machine, what)(*arguments)
        except Refused as refusal:
            self.say(f"node {node} refuses to {what}: {refusal}")
            if site.machine.memory != site.memory:
                self.wrong(f"node {node} has refused to {what}, and changed")
            return None
        site.memory = site.machine.memory
        self.seen(node, what, answer, arguments)
        return answer

    def seen(self, node: int, what: str, answer: Any, arguments: tuple[Any, ...]) -> None:
        """Add an answer to what the adversary knows, and check it by itself."""
        view, site = self.view, self.sites[node]
        if what == "advertise":
            self._see_keys(answer)
        elif what == "share":
            roster = arguments[0]
            self.rosters[roster.digest] = roster
            view.thresholds[roster.digest] = roster.level.threshold
            view.members[roster.digest] = tuple(member.node for member in roster.members)
            if node not in view.colluders:
                self._see_roster(site, roster)
        elif what == "mask":
            self._see_report(node, arguments[0], answer)
        elif what == "sign" and node not in view.colluders:
            self.signed.setdefault(self.statement(site, arguments[0]), set()).add(node)
        elif what == "unmask":
            self._see_shares(node, arguments[0], answer)
        if node in view.colluders:
            self._see_memory(site)

    def _see_keys(self, answer: Advertised) -> None:
        question = answer.question
        place = (answer.node, question.round_number, question.attempt)
        if self.adverts.setdefault(place, answer) != answer:
            self.wrong(f"node {answer.node} advertises two pairs of keys in one attempt")
        for other, before in self.adverts.items():
            if other != place and {answer.cipher, answer.mask} & {before.cipher, before.mask}:
                self.wrong(f"node {answer.node} uses a key in two attempts")

    def _see_roster(self, site: Site, roster: Roster) -> None:
        """Check that a roster is one, meets the node's demands, and is the only one that it accepts in its attempt."""
        level, node = roster.level, site.node
        if self.accepted.setdefault((node, roster.question), roster.digest) != roster.digest:
            self.wrong(f"node {node} has accepted two rosters in one attempt")
        if 2 * level.threshold <= level.neighbors + level.colluders:
            self.wrong(f"node {node} has accepted a threshold of half, counting colluders")
        if len(roster.members) < self.level.nodes or level.colluders < self.level.colluders:
            self.wrong(f"node {node} has accepted fewer nodes or colluders than it demands")
        keys_of = [key for member in roster.members for key in (member.cipher, member.mask, member.verify)]
        if len(set(keys_of)) < len(keys_of):
            self.wrong(f"node {node} has accepted a key that stands twice")
        genuine = {advertised.cipher for advertised in self.adverts.values()}
        if site.demands.peers is not None and not {member.cipher for member in roster.members} <= genuine:
            self.wrong(f"node {node} has accepted a key that none of its peers has sent")

    def _see_report(self, node: int, delivered: Delivered, answer: Masked) -> None:
        roster = self.roster_of(self.sites[node])
        position = self.view.members[roster.digest].index(node)
        if node not in self.view.colluders:
            machine = self.sites[node].machine
            own, asked = machine._secrets.mask, machine.asked
            masks = tuple(
                (other, pair_seed(roster, own, position, other, asked)) for other in sorted(delivered.envelopes)
            )
            report = Report(roster.question.round_number, node, roster.digest, position, masks, asked)
            self.view.reports.setdefault(report)

    def _see_shares(self, node: int, survivors: Survivors, answer: Unmasked) -> None:
        if node in self.view.colluders:
            return
        site = self.sites[node]
        roster = self.roster_of(site)
        position = self.view.members[roster.digest].index(node)
        for kind, shares in (("seed", answer.seeds), ("key", answer.keys)):
            for dealer in shares:
                self.view.shares[roster.digest, dealer, kind].add(position)
        statement = self.statement(site, survivors)
        honest = self.signed.get(statement, set())
        if 2 * (len(honest) + len(self.view.colluders)) <= self.level.nodes + self.level.colluders:
            self.wrong(f"node {node} has unmasked a set that {len(honest)} honest nodes have signed")
        answered = self.unmasked.setdefault((node, roster.question.round_number), set())
        answered.add(statement)
        if len(answered) > 1:
            self.wrong(f"node {node} has unmasked two sets in round {roster.question.round_number}")

    def _see_memory(self, site: Site) -> None:
        kept = site.machine._kept
        if kept.shares:
            roster = self.roster_of(site)
            position = self.view.members[roster.digest].index(site.node)
            for dealer in kept.shares:
                self.view.shares[roster.digest, int(dealer), "seed"].add(position)
                self.view.shares[roster.digest, int(dealer), "key"].add(position)

    def roster_of(self, site: Site) -> Roster:
        """Return the roster that a node has accepted."""
        roster = site.machine._roster
        assert roster is not None
        return roster

    def statement(self, site: Site, survivors: Survivors) -> bytes:
        """Return what a node signs for a set of survivors."""
        return self.roster_of(site).survived(survivors.sharers, survivors.reported, site.machine.asked)

    # --- messages on their way

    def exchanged(
        self, what: str, messages: dict[int, tuple[Any, ...]], take: Callable[[Any], None], late: list[Any]
    ) -> None:
        """Send each node its message and hand what it answers to the server, with all that can happen on the way."""
        order = list(messages)
        self.rng.shuffle(order)
        answers = []
        for node in order:
            answers += self._trip(what, node, messages[node], late)
        self.rng.shuffle(answers)
        for answer in answers:
            self.taken(take, answer)

    def _trip(self, what: str, node: int, arguments: tuple[Any, ...], late: list[Any]) -> Iterable[Any]:
        site, fate = self.sites[node], self.fate()
        if site.gone:
            return []
        if fate:
            self.say(f"{what} of node {node}: {fate}")
        if fate == "vanishes before":
            site.gone = True
        if fate in ("lost", "vanishes before"):
            return []
        if fate == "starts again before":
            site.start()
        answer = self.asked(node, what, *arguments)
        if fate == "starts again after":
            site.start()
        if fate in ("doubled", "starts again after") and answer is not None:
            again = self.asked(node, what, *arguments)
            if again is None or not same(again, answer):
                self.wrong(f"node {node} answers {what} otherwise when it is asked again")
        if fate == "vanishes after":
            site.gone = True
        if fate == "late" and answer is not None:
            late.append(answer)
        if fate in ("answer lost", "late") or answer is None:
            return []
        if fate == "garbled":
            answer = garbled(answer, self.rng)
        return [answer, answer] if fate == "answer doubled" else [answer]

    def fate(self) -> str:
        """Draw what happens to one message; empty for nothing."""
        if self.rng.random() >= self.faulty:
            return ""
        return self.rng.choices(list(FATES), list(FATES.values()))[0]

    def taken(self, take: Callable[[Any], None], answer: Any) -> None:
        """Hand an answer to the server, which may refuse it."""
        try:
            take(answer)
        except Refused as refusal:
            self.say(f"the server refuses: {refusal}")


def same(first: Any, second: Any) -> bool:
    """Return whether two answers are the same bytes."""
    if isinstance(first, Masked):
        return bool((first.values == second.values).all())
    return first == second


def garbled(answer: Any, rng: random.Random) -> Any:
    """Return an answer in which one thing is wrong, as a broken or malicious node would send it."""
    if isinstance(answer, Masked):
        return replace(answer, values=answer.values[:-1])
    if isinstance(answer, Unmasked):
        return replace(answer, seeds={dealer: share ^ 1 for dealer, share in answer.seeds.items()})
    if isinstance(answer, Advertised):
        return replace(answer, cipher=bytes(32))
    if hasattr(answer, "envelopes"):
        envelopes = {other: bytes(len(envelope)) for other, envelope in answer.envelopes.items()}
        return replace(answer, envelopes=envelopes) if rng.random() < 0.5 else replace(answer, envelopes={})
    return replace(answer, signature=bytes(64))


class Killed(Exception):
    """The server was killed."""


@dataclass
class Store:
    """What survives a killed server."""

    sealed: bytes | None = None


def run(seed: int, *, lie: Callable[[World, int], None] | None = None) -> World:
    """Run a schedule: rounds with their attempts; after some of them a server that lies takes over."""
    with known_secrets(seed):
        return _run(World.drawn(seed), lie)


@contextmanager
def known_secrets(seed: int) -> Iterator[None]:
    """Draw all secrets from a seed."""
    rng, genuine = random.Random(seed), key_agreement.fresh_secret
    key_agreement.fresh_secret = lambda: rng.randbytes(key_agreement.SIZE)
    try:
        yield
    finally:
        key_agreement.fresh_secret = genuine


def _run(world: World, lie: Callable[[World, int], None] | None) -> World:
    for round_number in range(1, world.rng.randint(1, 2) + 1):
        for site in world.sites.values():
            site.gone = False
        _round(world, round_number)
        _forget(world)
        if lie is not None and world.rng.random() < 0.5:
            lie(world, world.rng.randint(1, round_number))
            _forget(world)
    return world


def _forget(world: World) -> None:
    """Tell all nodes that the round is over, sometimes."""
    if world.rng.random() < 0.3:
        for site in world.sites.values():
            site.machine.forget(site.machine._question)
            site.memory = site.machine.memory


def _round(world: World, round_number: int) -> None:
    store, late = Store(), []
    for attempt in range(1, 4):
        question = Question(f"run {world.seed}", round_number, attempt)
        world.say(f"round {round_number}, attempt {attempt}")
        try:
            server = _until_unmasking(world, question, store, late)
        except Killed:
            server = None
        if server is None and store.sealed is None:
            continue  # nothing was unmasked: with fresh keys the round may be run again
        if (summed := _unmask(world, server, store, late)) is not None:
            world.committed[round_number] = summed
        return  # committed or skipped


def _step(world: World, found: Any) -> Any:
    if world.rng.random() < 0.03:
        world.say("the server is killed")
        raise Killed
    return found


def _until_unmasking(world: World, question: Question, store: Store, late: list[Any]) -> SecureServer | None:
    """Run an attempt until its set is agreed; None where too few have answered."""
    members: list[Advertised] = []

    def take(message: Advertised) -> None:
        check_advertised(message, question, members)
        members.append(message)

    world.exchanged("advertise", {node: (question,) for node in world.sites}, take, late)
    if _step(world, len(members)) < world.level.nodes:
        return None
    server = SecureServer(question, world.level, members, count=ENTRIES, bits=world.point.modulus_bits)
    world.exchanged("share", {member.node: (server.roster,) for member in members}, server.shared, late)
    delivered = _step(world, server.deliver())
    if isinstance(delivered, Missing):
        return None
    asked = {
        node: (each, world.values(node, question.round_number), world.point.modulus_bits)
        for node, each in delivered.items()
    }
    _take_late(world, server, late)
    world.exchanged("mask", asked, server.masked, late)
    survivors = _step(world, server.survivors())
    if isinstance(survivors, Missing):
        return None
    _take_late(world, server, late)
    world.exchanged("sign", {node: (each,) for node, each in survivors.items()}, server.signed, late)
    unmasking = _step(world, server.unmasking())
    if isinstance(unmasking, Missing):
        return None
    store.sealed = server.to_bytes()
    return _step(world, server)


def _unmask(world: World, server: SecureServer | None, store: Store, late: list[Any]) -> Summed | None:
    """Ask for the shares of the agreed set, again and again; None where the round is skipped."""
    for _ in range(3):
        if server is None:
            server = SecureServer.from_bytes(store.sealed or b"")
            world.say("the server goes on with the set that it has stored")
        unmasking = server.unmasking()
        assert isinstance(unmasking, dict)
        survivors = server.agreed
        _take_late(world, server, late)
        try:
            asked = {node: (survivors, each) for node, each in unmasking.items()}
            world.exchanged("unmask", asked, server.unmasked, late)
            summed = _step(world, server.summed())
        except Killed:
            server = None
            continue
        except Refused as refusal:
            world.say(f"skipped: {refusal}")
            return None
        if isinstance(summed, Summed):
            return summed
        for site in world.sites.values():  # those that have vanished come back in time to help
            site.gone = site.gone and world.rng.random() < 0.5
    world.say("skipped")
    return None


def _take_late(world: World, server: SecureServer, late: list[Any]) -> None:
    """Hand the server what comes after its time."""
    while late and world.rng.random() < 0.7:
        message = late.pop(world.rng.randrange(len(late)))
        if not isinstance(message, Advertised):
            take = {
                "Shared": server.shared,
                "Masked": server.masked,
                "Signed": server.signed,
                "Unmasked": server.unmasked,
            }
            world.taken(take[type(message).__name__], message)
