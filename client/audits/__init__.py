"""Audits of runs that protect nodes, as far as nodes take part in them.

| file | what |
|---|---|
| `chosen.py` | a model whose nodes change it as an auditor has chosen |
| `planted.py` | mistakes that a node may make with its clipping and its noise |
"""
