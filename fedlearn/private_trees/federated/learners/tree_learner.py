"""Learner of private trees: grows them once, on the node's own examples, with the node's whole budget.

The node's ledger has booked the budget before (`client.node_ledger`); an accountant also counts what the estimator spends.

Beside the trees, a report holds public numbers only: the epsilon spent, and 1 as the number of examples. The true
number is private, unless ``privacy.public_sizes`` says that it is public.
"""

from __future__ import annotations

from client.learners.learner import Learner, LocalFit, LocalTask
from fedlearn.config import RunConfig
from fedlearn.core.metric import EPSILON
from fedlearn.core.seeding import seed_for
from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples
from fedlearn.plugins.options import options_for
from fedlearn.privacy import NeighboringRelation, PrivacyAccountant, PrivacyUnit, largest_loss
from fedlearn.private_trees.federated.models.forest import ForestModel, state_of


class TreeLearner(Learner):
    """Learner that grows the private trees of a node.

    Parameters
    ----------
    model
        Holds the estimator, its options and the declared domain.
    config
        Settings with the budget and the kind of noise.
    """

    is_private = True

    def __init__(self, model: ForestModel, config: RunConfig) -> None:
        self.model = model
        self.privacy = config.privacy
        self.noise = "seeded" if config.privacy.noise == "seeded" else "secure"

    @classmethod
    def from_settings(cls, model: ForestModel, config: RunConfig) -> TreeLearner:
        """Return the learner of a run."""
        options_for(cls, config.training.options, setting="training.options", reserved=("model", "config"))
        return cls(model, config)

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the node's trees, and as metric the epsilon that the node's ledger has booked for them."""
        examples = task.train.at(task.indices)
        account = PrivacyAccountant(self.privacy.epsilon, NeighboringRelation.ADD_REMOVE, PrivacyUnit.RECORD)
        trees = self.grown(state, examples, task, account)
        loss = largest_loss(account.budget, self.privacy)
        return LocalFit(trees, len(examples) if self.privacy.public_sizes else 1, {EPSILON.name: loss.epsilon})

    def grown(self, state: State, examples: Examples, task: LocalTask, account: PrivacyAccountant) -> State:
        """Return the trees of a node as a state."""
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
