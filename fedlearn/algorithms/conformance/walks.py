"""What each algorithm must do on quadratics, written down round by round, as its paper has it."""

from __future__ import annotations

from fedlearn.algorithms.conformance import adapter_walks, common_walks, own_walks, scalar_problem
from fedlearn.algorithms.conformance.walking import Reference, Walk

WALKS: dict[str, Reference] = {
    "fedavg": common_walks.fedavg, "fedavgm": common_walks.fedavgm, "fedadam": common_walks.fedadam, "fedyogi":
    common_walks.fedyogi, "fedadagrad": common_walks.fedadagrad, "fedexp": common_walks.fedexp, "fedprox":
    common_walks.fedprox, "scaffold": common_walks.scaffold, "fednova": common_walks.fednova, "feddyn":
    common_walks.feddyn, "qfedavg": common_walks.qfedavg, "fedsam": common_walks.fedsam, "perfedavg":
    own_walks.perfedavg, "ditto": own_walks.ditto, "local": own_walks.local, "fedper": own_walks.fedper, "lgfedavg":
    own_walks.fedper, "fedrep": own_walks.fedrep, "fedbabu": own_walks.fedbabu, "moon": common_walks.fedavg,
    "fedrs": common_walks.fedavg, "fedlc": common_walks.fedavg, "fedbn": common_walks.fedavg, "fedala":
    common_walks.fedavg, "central": common_walks.fedavg, "heterofl": common_walks.fedavg, "fedrolex":
    common_walks.fedavg, "fjord": common_walks.fedavg, "fedit": adapter_walks.fedit, "ffa-lora":
    adapter_walks.ffa_lora, "fedsa-lora": adapter_walks.fedsa_lora, "flexlora": adapter_walks.flexlora, "flora":
    adapter_walks.flora, "decomfl": scalar_problem.walk,
}  # fmt: skip
"""Algorithm -> its walk. An algorithm for classes or for norms has FedAvg's walk, as a quadratic has neither."""

__all__ = ["WALKS", "Walk"]
