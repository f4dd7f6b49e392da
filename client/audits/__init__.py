"""Audits of what nodes do, behind their owner's policy and before a learner begins.

| file | what |
|---|---|
| `chosen.py` | a model whose nodes change it as an auditor has chosen |
| `doors.py` | the way of private records from a file to the node, as it is and with mistakes |
| `planted.py` | mistakes that a node may make with its clipping and its noise |
"""
