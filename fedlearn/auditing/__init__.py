"""Auditors of privacy claims: measured on outputs (`measured`, `cases`), or computed (`replay`, `recording`).

What they are shown lies by family: `nodes/` and `records/` of a federation, `trees/` and `federated_trees/`. No run
imports this room.
"""

from fedlearn.auditing.measured import AuditResult, Verdict, audit, audit_everything

__all__ = ["AuditResult", "Verdict", "audit", "audit_everything"]
