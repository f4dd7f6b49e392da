"""A server that lies to the nodes, with its colluders' help: what it gets must not be more than one sum of a round.

It runs attempts of its own, with two tales told to different nodes in every step, and asks everything again otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedlearn.core.errors import UsageError
from fedlearn.secure import key_agreement
from fedlearn.secure.key_agreement import Signer
from fedlearn.secure.level import Level
from fedlearn.secure.protocol_messages import Advertised, Delivered, Roster, Shared, Survivors, Unmasking
from fedlearn.secure.question import Question
from fedlearn.secure.secrets import Kept, Secrets
from tests.secure_faults.knowing import DEAD
from tests.secure_faults.world import World


def lie(world: World, round_number: int) -> None:
    """Ask for more of a round than may be known, in the attempt that has just ended and in others."""
    for site in world.sites.values():
        site.gone = False
    latest = max((attempt for _, number, attempt in world.adverts if number == round_number), default=0)
    for attempt in range(max(latest, 1), latest + world.rng.randint(2, 3)):
        _attempt(world, Question(f"run {world.seed}", round_number, attempt), plainly=world.rng.random() < 0.5)


def _attempt(world: World, question: Question, *, plainly: bool) -> None:
    """Run an attempt; one that is run plainly tells no lie, but that the round was not summed yet."""
    world.say(f"a liar asks for round {question.round_number}, attempt {question.attempt}")
    adverts = {node: found for node in world.sites if (found := world.asked(node, "advertise", question))}
    if plainly:
        _run_plainly(world, question, adverts)
        return
    rosters = [_roster(world, question, adverts) for _ in range(2)]
    shared: dict[int, tuple[Roster, Shared]] = {}
    for node in world.sites:
        for roster in world.rng.sample(rosters, world.rng.choice([1, 2])):
            if roster is not None and (found := world.asked(node, "share", roster)):
                shared.setdefault(node, (roster, found))
    world.say(f"{len(shared)} nodes share")
    for roster in rosters:
        if roster is not None:
            _go_on(world, roster, {node: found for node, (given, found) in shared.items() if given is roster})


def _run_plainly(world: World, question: Question, adverts: Mapping[int, Advertised]) -> None:
    """Ask for the sum over all nodes but one, as an honest server would; or ask all but one something else."""
    members = tuple(adverts[node] for node in sorted(adverts))
    if len(members) < world.level.nodes:
        return
    roster = Roster(question, world.level, members)
    shared = {node: found for node in adverts if (found := world.asked(node, "share", roster))}
    ids = [member.node for member in members]
    sharers = tuple(ids.index(node) for node in sorted(shared))
    left_out = world.rng.choice(sorted(shared) or [0])
    reported, alone = [], world.rng.choice(ids) if world.rng.random() < 0.5 else None
    for node in sorted(shared.keys() - {left_out}):
        delivered, asked = _delivered(roster, ids.index(node), sharers, shared, ids), b""
        if alone not in (None, node):
            asked = DEAD
        values = world.values(node, question.round_number)
        if world.asked(node, "mask", delivered, values, world.point.modulus_bits, asked):
            reported.append(ids.index(node))
    survivors = Survivors(question, sharers, tuple(sorted(reported)))
    signatures = {
        each: found.signature
        for each in reported
        if ids[each] != alone and (found := world.asked(ids[each], "sign", survivors)) is not None
    }
    for each in signatures:
        world.asked(ids[each], "unmask", survivors, Unmasking(question, signatures))


def _roster(world: World, question: Question, adverts: Mapping[int, Advertised]) -> Roster | None:
    """Return a roster, honest or not."""
    rng, level, members = world.rng, world.level, [adverts[node] for node in sorted(adverts)]
    match rng.choice(
        ["honest", "honest", "honest", "old", "own", "invented", "fewer", "half", "half", "weak", "swapped"]
    ):
        case "old":
            old = [each for (node, *_), each in world.adverts.items() if each.question != question]
            if old and members:
                given = rng.choice(old)
                members = [given if each.node == given.node else each for each in members]
        case "own" if len(members) > 1:
            members[0] = replace(members[1], node=members[0].node)
        case "invented" if members:
            signer = Signer(key_agreement.fresh_secret())
            own = Secrets(question, key_agreement.fresh_secret())
            invented = Advertised(question, members[0].node, own.cipher.public, own.mask.public, signer.public, b"")
            members[0] = replace(invented, signature=signer.sign(invented.statement))
        case "swapped" if members:  # the server's key in place of a node's, under the node's name and signature
            place = rng.randrange(len(members))
            members[place] = replace(
                members[place], cipher=Secrets(question, key_agreement.fresh_secret()).cipher.public
            )
        case "fewer":
            members = members[:-1]
            level = _level(len(members), len(members) - 1, len(members) - 1, level.colluders) or level
        case "half":
            threshold = (level.neighbors + rng.choice([0, level.colluders])) // 2
            half = _level(level.nodes, level.neighbors, threshold, level.colluders)
            level = half or level
        case "weak" if level.colluders:
            level = _level(level.nodes, level.neighbors, level.neighbors // 2 + 1, 0) or level
    return Roster(question, level, tuple(members)) if len(members) == level.nodes else None


def _level(*numbers: int) -> Level | None:
    try:
        return Level(*numbers)
    except UsageError:
        return None


def _go_on(world: World, roster: Roster, shared: Mapping[int, Shared]) -> None:
    """Tell two tales of who has shared, and of who has reported; ask for shares with all signatures there are."""
    rng, ids = world.rng, [member.node for member in roster.members]
    positions = {node: position for position, node in enumerate(ids)}
    have = tuple(sorted(positions[node] for node in shared if node in positions))
    tales = [have, _some(world, have)]
    reports: set[int] = set()
    for node in shared:
        for sharers in rng.sample(tales, rng.choice([1, 2])):
            delivered = _delivered(roster, positions[node], sharers, shared, ids)
            values = world.values(node, roster.question.round_number)
            found = world.asked(node, "mask", delivered, values, world.point.modulus_bits)
            if found is not None:
                reports.add(positions[node])
    told = [
        Survivors(roster.question, sharers, _some(world, tuple(sorted(reports)))) for sharers in tales for _ in range(2)
    ]
    told.append(Survivors(roster.question, have, tuple(sorted(reports))))
    signatures: dict[Survivors, dict[int, bytes]] = {survivors: {} for survivors in told}
    for node in shared:
        for survivors in rng.sample(told, rng.choice([1, 2, len(told)])):
            found = world.asked(node, "sign", survivors)
            if found is not None:
                signatures[survivors][positions[node]] = found.signature
    for survivors in told:
        _forge(world, roster, survivors, signatures[survivors])
    for survivors in rng.sample(told, len(told)):
        _ask(world, roster, survivors, signatures, shared)


def _ask(
    world: World,
    roster: Roster,
    survivors: Survivors,
    signatures: Mapping[Survivors, Mapping[int, bytes]],
    shared: Mapping[int, Any],
) -> None:
    given = dict(signatures[survivors])
    if world.rng.random() < 0.5:  # signatures of another set, where there are none of this one
        for others in signatures.values():
            given = {**others, **given}
    if len(given) > 1 and world.rng.random() < 0.5:
        given = {each: given[each] for each in world.rng.sample(sorted(given), world.rng.randint(1, len(given)))}
    for node in shared:
        world.asked(node, "unmask", survivors, Unmasking(roster.question, given))


def _forge(world: World, roster: Roster, survivors: Survivors, signatures: dict[int, bytes]) -> None:
    """Add the signatures of colluders, which sign anything."""
    asked = world.rng.choice([b"", DEAD])
    statement = roster.survived(survivors.sharers, survivors.reported, asked)
    for position, member in enumerate(roster.members):
        site = world.sites[member.node]
        if member.node in world.view.colluders and position in survivors.reported:
            kept = Kept.from_text(site.memory)
            own = Secrets(Question(site.run, kept.round_number, kept.attempt), bytes.fromhex(kept.seed or "00" * 32))
            signatures[position] = (site.signer or own.signer()).sign(statement)


def _delivered(
    roster: Roster, position: int, sharers: tuple[int, ...], shared: Mapping[int, Shared], ids: list[int]
) -> Delivered:
    near = [each for each in roster.graph.neighbors(position) if each in sharers]
    return Delivered(
        roster.question,
        sharers,
        {dealer: shared[ids[dealer]].envelopes[position] for dealer in near},
        {dealer: shared[ids[dealer]].commitments[position] for dealer in near},
    )


def _some(world: World, positions: tuple[int, ...]) -> tuple[int, ...]:
    """Return all but one or a few of some positions."""
    count = max(len(positions) - world.rng.choice([0, 1, 1, 2]), 0)
    return tuple(sorted(world.rng.sample(positions, count)))
