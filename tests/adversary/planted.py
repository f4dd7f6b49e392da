"""Plants bugs in a copy of the private mechanisms, models and nodes, one at a time: an auditor of ours must find each.

    python -m tests.adversary.planted                   # all of them: some minutes
    python -m tests.adversary.planted --only "shares"   # those with one of these words in their names

Each is a slip that somebody could make. `fedlearn audit --exact` (rows of the tables `REPLAYS` and `FILES`),
`fedlearn audit` (cases) or `fedlearn audit --nodes` (ways) must refute a claim with it. Exit code 1 where none does.
The quick ones are in the unit tests, too (`unit/auditing/federated_trees/test_replays.py`,
`unit/auditing/trees/test_replays.py`, `unit/auditing/federated_trees/test_file_replays.py`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tests.adversary.mends import Mend, copied, taken_out

PAIRS, DRAWS = 400, 60_000
NODE = "report of a node"
SUMS, MECHANISMS = "fedlearn/private_trees/sums", "fedlearn/privacy/mechanisms"


@dataclass(frozen=True, slots=True)
class Bug:
    """A slip: where it is made, and which rows and cases of the auditors look there."""

    name: str
    file: str
    text: str
    planted: str
    rows: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()


BUGS = (
    Bug("half the noise inside geometric", f"{MECHANISMS}/geometric.py",
        "by_row(noise_scale(sensitivity, epsilon), exact.shape)",
        "by_row(noise_scale(sensitivity, epsilon) / 2, exact.shape)", cases=("geometric",)),
    Bug("one draw for all numbers of a row", "fedlearn/privacy/noise.py",
        "            drawn[here] = _opendp_laplace(float(each))(np.zeros(int(here.sum()), np.int64))\n",
        "            drawn[here] = _opendp_laplace(float(each))(np.zeros(int(here.sum()), np.int64))\n"
        "        drawn[...] = drawn[..., :1] if drawn.ndim > 1 else drawn\n",
        cases=("geometric",)),
    Bug("parts of exactly equal size", f"{MECHANISMS}/parallel_parts.py",
        "return rng.integers(count, size=rows)", "return rng.permutation(np.arange(rows) % count)",
        cases=("parts, where the others are",)),
    Bug("half the noise on boosting's sums", f"{SUMS}/boosting.py",
        "epsilon=plan.sums, noise=noise))", "epsilon=2 * plan.sums, noise=noise))", ("DPBoostingClassifier",)),
    Bug("one round more than booked", f"{SUMS}/boosting.py",
        "for _ in range(plan.rounds):", "for _ in range(plan.rounds + 1):", ("DPBoostingClassifier",)),
    Bug("a record counted twice in its cell", f"{SUMS}/boosting.py",
        "sums = cell_sums(codes, partitions, partition, pairs)",
        "sums = 2 * cell_sums(codes, partitions, partition, pairs)", ("DPBoostingRegressor",)),
    Bug("curvatures that cost more than is left of a record", f"{SUMS}/losses.py",
        "np.int64(wanted[row, column] * share)", "np.int64(2 * wanted[row, column])",
        ("DPBoostingRegressor", f"dp-boosting, {NODE}")),
    Bug("boosting's choice taken for monotone", f"{SUMS}/boosting.py",
        "sensitivity=1.0, epsilon=plan.choice, noise=noise)",
        "sensitivity=1.0, epsilon=plan.choice, noise=noise, monotone=True)", ("DPBoostingClassifier",)),
    Bug("naive Bayes without the factor of its columns", f"{SUMS}/bayes.py",
        "sensitivity=unit * max(len(views.sizes), 1)", "sensitivity=unit", ("DPNaiveBayes",)),
    Bug("private bins at the sensitivity of one column", f"{SUMS}/bins.py",
        "sensitivity=unit * len(fine.sizes)", "sensitivity=unit", ("DPBoostingClassifier", "DPBoostingRegressor")),
    Bug("weights that are not clipped", "fedlearn/private_trees/weights.py",
        "nan=0.0, posinf=max_weight), 0, max_weight)", "nan=0.0, posinf=max_weight), 0, None)", ("DPNaiveBayes",)),
    Bug("steps of sums without noise", f"{SUMS}/boosting.py",
        "step = rate * step_of(released, loss", "step = rate * step_of(in_records(sums), loss",
        ("DPBoostingClassifier",)),
    Bug("a forest one level deeper than its budget", "fedlearn/private_trees/classes/permute_and_flip_forest.py",
        "return harmonic_shares(min(self.max_depth_, usable))",
        "shares = harmonic_shares(min(self.max_depth_, usable))\n        return np.concatenate([shares[:1], shares])",
        ("PermuteAndFlipForest",)),
    Bug("secure noise of seed 0", "fedlearn/privacy/noise.py",
        "    return _SecureNoise()\n",
        "    noise = _SeededNoise(np.random.default_rng(0))\n    noise.is_secure = True\n    return noise\n",
        ("DPNaiveBayes", f"dp-naive-bayes, {NODE}"), ways=("secure", "secure shares")),
    Bug("seeded noise under another name", "client/learners/sums_learner.py",
        'if self.privacy.noise == "seeded":', "if self.privacy.noise:", (f"dp-naive-bayes, {NODE}",)),
    Bug("replaced records booked once", "fedlearn/privacy/budget.py",
        "return loss.under(NeighboringRelation.REPLACE) if settings.public_sizes else loss", "return loss",
        (f"dp-boosting, {NODE}", f"dp-naive-bayes, {NODE}", f"dp-forest, {NODE}")),
    Bug("later rounds with the epsilon of the first", "client/learners/sums_learner.py",
        "epsilon = self.cost(self.privacy.epsilon, round_number=task.round_number)",
        "epsilon = self.cost(self.privacy.epsilon)", ("dp-boosting, later rounds of a node",)),
    Bug("sums that count thrice from the third round on", f"{SUMS}/cyclic.py",
        "        return sums.ravel()\n\n    def model(",
        "        return sums.ravel() * (3 if model.steps else 1)\n\n    def model(",
        (f"dp-boosting, {NODE}",)),
    Bug("shares of more nodes than report", "fedlearn/models/sums.py",
        'shares = honest_shares(config) if config.privacy.trust == "distributed" else 1',
        'shares = 10 * honest_shares(config) if config.privacy.trust == "distributed" else 1',
        (f"dp-boosting, {NODE}", "dp-naive-bayes, a sum of shares")),
    Bug("a search whose runs pay epsilon each", "fedlearn/private_trees/private_search.py",
        "epsilon = self.epsilon / cost_of_search(1.0, eta=self.eta)", "epsilon = self.epsilon", ("PrivateSearch",)),
    Bug("the data kept in a private attribute", f"{SUMS}/private_sums.py",
        "        self.privacy_spent_ = accountant.spent\n",
        "        self.privacy_spent_ = accountant.spent\n        self._X, self._n = X, len(y)\n", ("DPNaiveBayes",)),
    Bug("parts that can be drawn again", "fedlearn/private_trees/classes/classifier.py",
        "parts = np.random.default_rng() if is_secure else", "parts = np.random.default_rng(0) if is_secure else",
        ("DPRandomForestClassifier",)),
    Bug("a node that leaves out a fifth of its rows by their number", "client/examples.py",
        "    return table.indices(place)\n",
        "    rows = table.indices(place)\n"
        "    return np.random.default_rng(20).permutation(rows)[len(rows) // 5 :]\n",
        ("dp-naive-bayes, from a file to its node", "dp-naive-bayes, from a file to three nodes")),
    Bug("one number of noise for all entries of a run", f"{MECHANISMS}/gaussian.py",
        "_sensitivity(clip, exponent, exact.size), exact.shape)",
        "_sensitivity(clip, exponent, exact.size), (1,)) * np.ones(exact.shape, np.int64)", ways=("central", "local")),
    Bug("a tenth less noise than a run is booked for", f"{MECHANISMS}/gaussian.py",
        "math.ldexp(clip, -exponent) * (1 + SUMMING)", "math.ldexp(clip, -exponent) * 0.9", ways=("central", "local")),
    Bug("no noise of a run where nothing was sent", "server/features/privacy/node_privacy.py",
        "        parts = np.split(noisy, ",
        "        noisy = np.where(exact == 0, 0.0, noisy)\n        parts = np.split(noisy, ",
        ways=("central", "alone")),
    Bug("a correction of a run's noise that adds it", "fedlearn/privacy/factorization/banded.py",
        "total -= coefficient", "total += coefficient", ways=("correlated",)),
    Bug("earlier noise of a run that is not taken away", "fedlearn/privacy/factorization/inverse_banded.py",
        "sum(d * row for", "sum(-d * row for", ways=("inverse",)),
    Bug("one noise for all nodes of a run", "client/features/local_noise.py", '"node": task.partition_id', '"node": 0',
        ways=("local", "distributed")),
    Bug("one coin for all nodes of a run", "server/selectors/poisson.py",
        "rng.random(self.clients)", "0 * rng.random(self.clients) + rng.random()", ways=("coins",)),
    Bug("a cohort of a run drawn once for two rounds", "server/selectors/poisson.py",
        "**at._asdict())", "round_number=at.round_number // 2, attempt=1)", ways=("coins",)),
    Bug("the sum of a run in a further file", "server/committing.py",
        "    row = record.as_row()\n",
        "    total = sum(float(each.sum()) for each in reporting.sums[STATE].totals.values())\n"
        '    (run.store.folder / "total.txt").write_text(str(total))\n    row = record.as_row()\n', ways=("central",)),
)  # fmt: skip
"""Kinds of mistakes, in the words of the auditor that must find them."""


def is_found(bug: Bug) -> bool:
    """Return whether all rows, cases and ways of a bug are refuted, in this process' code."""
    from fedlearn.auditing import Verdict, audit_everything
    from fedlearn.auditing.cases import MECHANISM_CASES
    from fedlearn.auditing.replay import replay
    from fedlearn.commands.audited_nodes import loss_of

    rows = every_row()
    replayed = [replay(row, rows[row], pairs=PAIRS, stops=True) for row in bug.rows]
    drawn = audit_everything(DRAWS, None, {case: MECHANISM_CASES[case] for case in bug.cases})
    runs = [loss_of(way) for way in bug.ways]
    print("; ".join(str(result) for result in [*replayed, *drawn, *runs]))
    refuted = [each.verdict is Verdict.REFUTED for each in drawn] + [each.is_refuted for each in [*replayed, *runs]]
    return all(refuted)


def every_row() -> dict[str, Any]:
    """Return all rows of the exact auditor."""
    from fedlearn.auditing.federated_trees import file_replays
    from fedlearn.auditing.federated_trees import replays as nodes
    from fedlearn.auditing.trees import classes_replays as classes
    from fedlearn.auditing.trees import numbers_replays as numbers
    from fedlearn.auditing.trees import searching_replays
    from fedlearn.auditing.trees import sums_replays as sums

    rows = numbers.REPLAYS | classes.REPLAYS | sums.REPLAYS | searching_replays.REPLAYS | nodes.REPLAYS
    return rows | file_replays.FILES


def main(
    only: Annotated[list[str] | None, typer.Option(help="Only those with this in their name.")] = None,
    here: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Plant the bugs, one after another; exit code 1 if one is not found, in a row or a case that looks there."""
    if here:
        raise SystemExit(0 if is_found(next(bug for bug in BUGS if bug.name == here)) else 1)
    missed = []
    with tempfile.TemporaryDirectory() as place:
        copy = copied(Path(place))
        environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        for bug in BUGS:
            if only and not any(word in bug.name for word in only):
                continue
            with taken_out(Mend("planted", bug.file, bug.text, bug.planted, ""), copy):
                command = [sys.executable, "-m", "tests.adversary.planted", "--here", bug.name]
                done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
            missed += [bug.name] if done.returncode else []
            last = (done.stdout.strip() or done.stderr.strip()).splitlines()[-1:]
            print(f"{'found' if not done.returncode else 'MISSED':<7}{bug.name:<58}{''.join(last)[:200]}", flush=True)
    print(f"missed={len(missed)}")
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    typer.run(main)
