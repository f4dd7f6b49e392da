"""What a server on a network must not forget of secure sums when it is killed.

Nodes remember for themselves which attempts they have joined, and that they have helped to unmask a round: they help
with no other set of it. So a resumed server asks for the very same set again, and counts attempts on from those before.
What is stored for it holds no secret: the sum is still under its masks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedlearn.core.cohort import At, Fate, Member, NodeReport
from fedlearn.core.errors import CheckpointError, Refused
from fedlearn.runs.file_names import ASKED_SUM
from fedlearn.runs.files import storing, write_atomically
from fedlearn.secure import texts
from server.attempt import Reporting
from server.run import ServerRun

if TYPE_CHECKING:
    from fedlearn.secure.server_protocol import SecureServer


@dataclass(frozen=True, slots=True)
class AskedSum:
    """The sums of an attempt that nodes were asked to unmask: one, or one of each group.

    Parameters
    ----------
    at
        Round and attempt.
    nodes
        (node id, partition id) of the cohort.
    fates
        What became of each: (node id, partition id, fate, reason, bytes of its report).
    sums
        The server's part in each (`SecureServer.to_bytes`).
    """

    at: tuple[int, int]
    nodes: tuple[tuple[int, int], ...]
    fates: tuple[tuple[int, int, str, str, int], ...]
    sums: tuple[bytes, ...]

    @property
    def cohort(self) -> list[Member]:
        """The nodes of the attempt."""
        return [Member(*node, position) for position, node in enumerate(self.nodes)]

    @property
    def reporting(self) -> Reporting:
        """Who has reported; without a sum."""
        members, reports = [], []
        for position, (node_id, partition_id, fate, reason, size) in enumerate(self.fates):
            members.append(Member(node_id, partition_id, position))
            reports.append(NodeReport(position, Fate(fate), bytes_up=size, reason=reason))
        return Reporting(members, reports, {}, [None] * len(reports))


def store_asked(
    run: ServerRun, servers: Iterable[SecureServer], cohort: Iterable[Member], reporting: Reporting, at: At
) -> None:
    """Store sums before the nodes are asked to unmask them."""
    fates = tuple(
        (member.node_id, member.partition_id, str(report.fate), report.reason, report.bytes_up)
        for member, report in zip(reporting.members, reporting.reports, strict=True)
    )
    nodes = tuple((member.node_id, member.partition_id) for member in cohort)
    with storing(run.store.folder):
        sums = tuple(server.to_bytes() for server in servers)
        write_atomically(run.store.folder / ASKED_SUM, texts.to_bytes(AskedSum(at, nodes, fates, sums)))


def asked_sum(run: ServerRun, at: At) -> AskedSum | None:
    """Return the sums of a round that a killed server has asked for; None where it has asked for none.

    Raises
    ------
    CheckpointError
        If the file does not hold what was written.
    """
    file = run.store.folder / ASKED_SUM
    if not file.exists():
        return None
    try:
        asked = texts.from_bytes(AskedSum, file.read_bytes())
    except Refused as refused:
        raise CheckpointError(
            f"{file} is damaged: put back what was written, or begin another run ({refused.reason})"
        ) from None
    return asked if asked.at[0] == at.round_number else None


def forget_asked(run: ServerRun) -> None:
    """Remove the sums that were asked for, if their round is committed."""
    next_round = len(run.store.history.rounds) + 1
    if (run.store.folder / ASKED_SUM).exists() and asked_sum(run, At(next_round, 1)) is None:
        (run.store.folder / ASKED_SUM).unlink()
