"""Audits of DP-SGD: by canaries in whole trainings, and by replays of the sums of neighbors.

| file | what |
|---|---|
| `canaries.py` | the audit of one training on digits by its canaries |
| `neighbors.py` | the exact audit: two data sets that differ by a record, step by step |
| `planted.py` | learners with a mistake, each of which one of the two must find |
| `both.py` | both audits of all of them, for ``fedlearn audit --networks`` |
"""
