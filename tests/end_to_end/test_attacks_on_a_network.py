"""A SuperNode that its owner started to lie: the simulation's bytes, loud in its log, with a defence that stands it."""

from __future__ import annotations

import pytest

from fedlearn.attacks import attackers_of
from fedlearn.config import RunConfig
from tests.compose.federation import Federation, why_not

pytestmark = [
    pytest.mark.network,
    pytest.mark.long,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]
PATIENCE = 400.0  # seconds, on a loaded machine
OPTIONS = '{"scale": 2.0}'
ATTACK = {"attack.name": "sign-flip", "attack.attackers": 0.2, "attack.options": OPTIONS}
SETTINGS = {
    "clients": 5, "rounds.total": 2, "rounds.cohort": 0, "rounds.minimum_ready": 1.0, "rounds.selection_window": 120.0,
    "rounds.reporting_deadline": 120.0, "data.dataset": "digits", "model.name": "linear", "training.local_epochs": 1,
    "strategy.name": "krum", "compression.send": "update",
}  # fmt: skip


def test_a_lying_supernode_gives_the_bytes_of_the_simulation(tmp_path, execute):
    (liar,) = attackers_of(RunConfig(clients=5, attack={"name": "sign-flip", "attackers": 0.2}))
    one = Federation(tmp_path / "net", clients=5, started=0)
    own = {"FEDLEARN_PARTITION": str(liar), "FEDLEARN_ATTACK": "sign-flip", "FEDLEARN_ATTACK_OPTIONS": OPTIONS}
    try:
        one.stack.up("serverapp")
        lying = one.stack.add("client", environment={**one.stack.services["client"].environment, **own})
        one.stack.until(lambda: f"holds partition {liar} of 5" in lying.read_log(), "the liar's claim", PATIENCE)
        for _ in range(4):
            one.stack.add("client")
        run = one.submit(SETTINGS)
        assert one.stack.wait(run.job.name, PATIENCE) == 0, one.stack.story(60)
        refused = one.submit({**SETTINGS, **ATTACK})
        assert one.stack.wait(refused.job.name, PATIENCE) != 0
        assert "no server makes the clients of a network lie" in refused.job.read_log()
        log = lying.read_log()
    finally:
        one.stack.down()
    assert "THIS CLIENT ATTACKS in every update, by --attack sign-flip" in log
    assert "this client lies, by its own --attack" in log
    assert run.summary["model_sha256"] == execute({**SETTINGS, **ATTACK}, engine="inline").sha
    assert run.summary["model_sha256"] != execute(SETTINGS, engine="inline").sha
