"""A node's private trees: grown once, on the node's own examples, with the whole of its budget.

The node's ledger has booked the budget before (`client.ledger`); what the estimator spends of it is counted once more.

What the report says beside the trees is public: what was spent, and 1 as the number of examples, as the true one is
the business of the records, unless ``privacy.public_sizes`` says that everybody knows it.
"""

from __future__ import annotations

from client.learners.base import Learner, LocalFit, LocalTask
from fedlearn.config import RunConfig
from fedlearn.data.base import Examples
from fedlearn.plugging.options import options_for
from fedlearn.privacy import NeighboringRelation, PrivacyAccountant, PrivacyUnit, largest_loss
from fedlearn.private_trees.federated.models.forest import ForestModel, state_of
from fedlearn.words.metric import EPSILON
from fedlearn.words.seeding import seed_for
from fedlearn.words.state import State


class TreeLearner(Learner):
    """Grows the trees of one node after another.

    Parameters
    ----------
    model
        Knows the estimator, its options and the declared domain.
    config
        Budget and noise.
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
        """Return the node's own trees, for which the node's ledger has paid; they say what it has booked."""
        examples = task.train.at(task.indices)
        account = PrivacyAccountant(self.privacy.epsilon, NeighboringRelation.ADD_REMOVE, PrivacyUnit.RECORD)
        trees = self.grown(state, examples, task, account)
        loss = largest_loss(account.budget, self.privacy)
        return LocalFit(trees, len(examples) if self.privacy.public_sizes else 1, {EPSILON.name: loss.epsilon})

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
