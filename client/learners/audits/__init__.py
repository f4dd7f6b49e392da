"""Audits of DP-SGD: by canaries in whole trainings, and by replays of the sums of neighbors.

| file | what |
|---|---|
| `runs.py` | a training of one node by rounds, on digits, with canaries |
| `canaries.py` | the audit of one training by its canaries |
| `neighbors.py` | the exact audit: two data sets that differ by a record, step by step |
| `planted.py` | learners with a mistake, each of which one of the two must find |
"""
