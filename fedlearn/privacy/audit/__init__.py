"""Auditors of privacy claims: measured on outputs (`measured`, `cases`), or computed (`replay`, `recording`)."""

from fedlearn.privacy.audit.measured import AuditResult, Verdict, audit, audit_everything

__all__ = ["AuditResult", "Verdict", "audit", "audit_everything"]
