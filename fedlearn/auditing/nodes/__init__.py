"""Audits of runs that protect nodes, and of the way of records to a node.

| file | what |
|---|---|
| `chosen_model.py` | a model whose nodes change it as an auditor has chosen |
| `doors.py` | the way of private records from a file to the node, as it is and with mistakes |
| `planted.py` | mistakes that a node may make with its clipping and its noise |
| `server_mistakes.py` | mistakes of a server, and the audit of Poisson sampling |
"""
