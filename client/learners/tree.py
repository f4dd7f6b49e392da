"""A node's private trees: grown once, on the node's own examples, with the whole of its budget.

The node keeps its account between messages, and across resumes; it is asked before the data is touched, by the
estimator. A node whose budget is spent says so when it is asked whether it is ready.

What the report says beside the trees is public: what was spent, and 1 as the number of examples, as the true one is
the business of the records, unless ``privacy.public_sizes`` says that everybody knows it.
"""

from __future__ import annotations

import json

from client.learners.base import Learner, LocalFit, LocalTask
from client.memory import NodeMemory
from fedlearn.config import RunConfig
from fedlearn.config.options import options_for
from fedlearn.data.base import Examples
from fedlearn.metrics import EPSILON
from fedlearn.models.forest import ForestModel, state_of
from fedlearn.privacy import NeighboringRelation, PrivacyAccountant, PrivacyUnit
from fedlearn.seeding import seed_for
from fedlearn.state import State

ACCOUNT = "account"
"""Under this name the node keeps its account, as JSON."""


class TreeLearner(Learner):
    """Grows the trees of one node after another.

    Parameters
    ----------
    model
        Knows the estimator, its options and the declared domain.
    config
        Budget and noise.
    """

    def __init__(self, model: ForestModel, config: RunConfig) -> None:
        self.model = model
        self.privacy = config.privacy
        self.noise = "seeded" if config.privacy.noise == "seeded" else "secure"

    @classmethod
    def from_settings(cls, model: ForestModel, config: RunConfig) -> TreeLearner:
        """Return the learner of a run."""
        options_for(cls, config.training.options, setting="training.options", reserved=("model", "config"))
        return cls(model, config)

    def why_not(self, memory: NodeMemory) -> str:
        """Return "budget spent" where the account does not cover another tree."""
        account = self.account(memory)
        if not account.would_exceed(self.privacy.epsilon):
            return ""
        return f"budget spent: {account.spent.epsilon:g} of epsilon {account.budget:g}"

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the node's own trees; the account in the task's memory is charged, whatever happens then."""
        account = self.account(task.memory)
        examples = task.train.at(task.indices)
        try:
            trees = self.grown(state, examples, task, account)
        finally:
            task.memory.texts[ACCOUNT] = json.dumps(account.to_dict())
        num_examples = len(examples) if self.privacy.public_sizes else 1
        return LocalFit(trees, num_examples, {EPSILON.name: account.spent.epsilon})

    def account(self, memory: NodeMemory) -> PrivacyAccountant:
        """Return the node's account; a new one where it has none."""
        if ACCOUNT in memory.texts:
            return PrivacyAccountant.from_dict(json.loads(memory.texts[ACCOUNT]))
        return PrivacyAccountant(self.privacy.epsilon, NeighboringRelation.ADD_REMOVE, PrivacyUnit.RECORD)

    def grown(self, state: State, examples: Examples, task: LocalTask, account: PrivacyAccountant) -> State:
        """Return the trees that are to be sent."""
        seed = seed_for(task.seed, purpose="trees", round_number=task.round_number, node=task.partition_id)
        public = {"n_declared": len(examples)} if self.privacy.public_sizes and self.model.counts_records else {}
        estimator = self.model.estimator(
            state,
            epsilon=self.privacy.epsilon,
            noise=self.noise,
            accountant=account,
            random_state=seed % 2**32,  # scikit-learn takes 32 bits
            **public,
        )
        return state_of(estimator.fit(examples.inputs, examples.targets).table_)
