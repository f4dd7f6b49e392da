"""Plants a mistake in a copy of the code, and counts how many fault schedules it takes to find it.

    python -m tests.secure_faults.mutants                # all of them
    python -m tests.secure_faults.mutants --only "half"  # those of some names

Exit code 1 if one is not found within `--schedules`. What is not planted: checks whose lack another check makes good;
those that save a sum, not a secret (a share that does not fit its commitment); and that of the sharers, which prevents
what takes eleven nodes and three lies. `tests/unit/secure/test_attacks.py` finds these.
"""

# What stands in the code stands here in one piece:
# ruff: noqa: E501

from __future__ import annotations

from typing import Annotated

import typer

from tests.faults.mutants import Mutant, printed_with

FIND = """
from tests.secure_faults.checking import found_in
for seed, lines in found_in(0, {most}, most=1)[1]:
    print(seed, lines[0])
"""
FIND_IN_RUNS = """
from tests.secure_faults.rounds import found_in_runs
for seed in range({most}):
    if lines := found_in_runs(seed, seed + 1)[1]:
        print(seed, lines[0][1][0])
        break
"""
NODE, SERVER = "fedlearn/secure/node_protocol.py", "fedlearn/secure/server_protocol.py"

MUTANTS = (
    # a node reveals too much
    Mutant("both kinds of share revealed", NODE, "for other in lost if", "for other in (*lost, *near) if"),
    Mutant("kinds of share swapped", NODE, "for other in near if (found", "for other in lost if (found"),
    Mutant("second set signed", NODE, "if kept.survivors not in", "if False and kept.survivors not in"),
    Mutant("signatures skipped", NODE, "        self._check_signatures(statement, survivors, unmasking)\n", ""),
    Mutant("any signature", NODE, "if not is_signed(statement, unmasking.signatures[each], member.verify):", "if False:"),
    Mutant("one signature fewer", NODE, "if len(given) < roster.level.signers:", "if len(given) < roster.level.signers - 1:"),
    Mutant("half of the nodes sign", "fedlearn/secure/level.py", "(self.nodes + self.colluders) // 2 + 1", "(self.nodes + 1) // 2"),
    Mutant("second report masked", NODE, "if self._kept.report not in", "if False and self._kept.report not in"),
    # a round is asked twice
    Mutant("another attempt after unmasking", NODE, "if kept.unmasked and asked != joined and asked[0] == joined[0]:", "if False:"),
    Mutant("unmasking not remembered", NODE, "replace(self._kept, unmasked=True)", "self._kept"),
    Mutant("unmasking forgotten with the secrets", "fedlearn/secure/secrets.py", "unmasked=self.unmasked)", "unmasked=False)"),
    Mutant("earlier attempts joined", NODE, "if asked < joined or", "if False or"),
    Mutant("forgotten attempt joined", NODE, "(asked == joined and not kept.seed)", "False"),
    # rosters
    Mutant("threshold of half, counting colluders", "fedlearn/secure/level.py", "if 2 * self.threshold > self.neighbors + self.colluders:", "if 2 * self.threshold >= self.neighbors + self.colluders:"),
    Mutant("second roster shared", NODE, "self._roster.digest != roster.digest", "False"),
    Mutant("level below the demands", "fedlearn/secure/demands.py", "level.colluders < self.colluders or", "False or"),
    Mutant("fewer nodes than demanded", "fedlearn/secure/demands.py", "if len(members) < self.fewest:", "if False:"),
    Mutant("a key stands twice", "fedlearn/secure/demands.py", "len(set(keys)) < len(keys)", "False"),
    Mutant("unlisted peer", "fedlearn/secure/demands.py", "if member.verify not in (self.peers or ())", "if False"),
    Mutant("keys not signed", "fedlearn/secure/demands.py", "if not is_signed(member.statement, member.signature, member.verify):", "if False:"),
    # keys and masks
    Mutant("a key used again", "fedlearn/secure/secrets.py", "seed=key_agreement.fresh_secret().hex())", "seed=self.seed or key_agreement.fresh_secret().hex())"),
    Mutant("a key of the run", "fedlearn/secure/secrets.py", 'KeyPair.derived(seed, question.about("masking key"))', 'KeyPair.derived(bytes(31) + question.run.encode()[-1:], b"")'),
    Mutant("masks of 32 bits", "fedlearn/secure/masks.py", "Cipher(AES256(seed), CTR", "Cipher(AES256(seed[:4] + bytes(28)), CTR"),
    Mutant("no mask of its own", NODE, "        add_mask(total, self_seed(roster, self._secrets.self_mask))\n", ""),
    Mutant("masks with one sign", "fedlearn/secure/masking.py", "sign=1 if position < other else -1", "sign=1"),
    Mutant("masks of any question", "fedlearn/secure/masking.py", "*ends, asked))", "*ends))"),
    # the server
    Mutant("second report added", SERVER, "if position in taken:", "if False:"),
    Mutant("late report added", SERVER, "or self.phase is not phase:", "or False:"),
    Mutant("sum stored without the last report", SERVER, "        self._total += values\n        self._reported", "        self._total += values * (len(self._reported) < 3)\n        self._reported"),
    Mutant("lost nodes' masks left in", "fedlearn/secure/opening.py", "for position, shares in found.keys.items():", "for position, shares in ():"),
    Mutant("sum not reduced", "fedlearn/secure/opening.py", "return reduced(bare, bits)", "return bare"),
)  # fmt: skip


OF_RUNS = (
    Mutant("report added to another group", "server/features/secure_sums/masked_gate.py", "groups[member.position] if groups", "groups[0] if groups"),
    Mutant("group counted that is discarded", "server/features/secure_sums/collect.py", "if report.fate is Fate.REPORTED and member.partition_id in why:", "if False:"),
    Mutant("vector of another attempt masked", "client/secure_sums/secure_node.py", "vector if is_masked else vector[:0], bits, asked)", "vector + (instruction.at.attempt > 1) if is_masked else vector[:0], bits, asked)"),
)  # fmt: skip
"""Mistakes around the state machines, which whole runs find (`rounds`)."""


def found(mutant: Mutant, *, schedules: int) -> str:
    """Return the first seed that finds a mistake and what it says; empty where none of so many does."""
    text = FIND_IN_RUNS if mutant in OF_RUNS else FIND
    copied = ("fedlearn", "server", "client", "strategies") if mutant in OF_RUNS else ("fedlearn",)
    return printed_with(mutant, text.format(most=schedules), copied=copied)


def main(
    only: Annotated[list[str] | None, typer.Option(help="A part of the names of those wanted.")] = None,
    schedules: Annotated[int, typer.Option(min=1, help="Within how many each must be found.")] = 1000,
) -> None:
    """Plant mistakes, one at a time, and look how soon each is found."""
    missed = 0
    for mutant in (*MUTANTS, *OF_RUNS):
        if only and not any(part in mutant.name for part in only):
            continue
        said = found(mutant, schedules=schedules)
        missed += not said
        print(f"{mutant.name:40} {said[:150] or 'NOT FOUND'}", flush=True)
    raise typer.Exit(1 if missed else 0)


if __name__ == "__main__":
    typer.run(main)
