"""The gate of masked reports: their place, checksum and size are checked; their values say nothing, and cannot be.

A liar moves an entry of the sum by up to the whole modulus, and cannot be named: a decoded sum that honest nodes cannot
have is refused whole (`fedlearn.secure.summands`), and its round is skipped.
"""

from __future__ import annotations

from dataclasses import replace

from flwr.app import Message, RecordDict

from fedlearn import wire
from fedlearn.aggregation import FoldPlan, Verdict
from fedlearn.aggregation.modular import MASKED, sum_name
from fedlearn.core.cohort import Member
from fedlearn.core.errors import Refused
from fedlearn.core.state import Entries, Update
from fedlearn.secure.packed import unpacked
from server.gate.gate import ReportGate


class MaskedGate(ReportGate):
    """Checks the masked reports of one attempt.

    Parameters
    ----------
    plan
        Its layout has an array for each sum (`sum_name`), and `masked` says how reports are read.
    """

    def __init__(self, plan: FoldPlan) -> None:
        super().__init__(plan)
        self._most_examples = 1  # a node says nothing of itself in the clear
        assert plan.masked is not None
        self._sums, self._masked = plan.layout, plan.masked

    def check(self, reply: Message, member: Member, sent: RecordDict) -> Verdict:
        """Return the verdict on what came from `member`: nothing is known of it but that it came."""
        verdict = super().check(reply, member, sent)
        return replace(verdict, report=verdict.report._replace(num_examples=0)) if verdict.parcels else verdict

    def _update(self, content: RecordDict, member: Member, sent: RecordDict) -> tuple[Update, float]:
        """Return the masked vector of a report, by the name of its sum, and 0 for the norm that is not known."""
        arrays = wire.unpack_arrays(wire.state_record(content))
        if list(arrays) != [MASKED]:
            raise Refused("wrong-names", f"arrays {sorted(arrays)}, expected {MASKED!r}")
        packed = arrays[MASKED]
        if packed.dtype != "uint8" or packed.ndim != 1:
            raise Refused("wrong-dtype", f"{MASKED} has dtype {packed.dtype} and {packed.ndim} dimensions: not bytes")
        groups = self._masked.groups
        name = sum_name(groups[member.position] if groups else None)
        return {name: Entries(unpacked(packed.tobytes(), self._sums[name].size, self._masked.bits))}, 0.0
