"""FedPer, Arivazhagan et al. 2019 (arXiv:1912.00818): the last layer of each node is its own, and never leaves it."""

from client.learners.sgd import SGD


class FedPer(SGD):
    def __init__(self, model, config, *, layer: str = "fc3"):
        super().__init__(model, config)
        self.layer = layer

    def personal(self, state, memory):
        return {**state, **memory.arrays.get("own", {})}

    def fit(self, state, task):
        fit = super().fit(self.personal(state, task.memory), task)
        own = {name: array for name, array in fit.arrays.items() if name.startswith(self.layer)}
        task.memory.arrays["own"] = {name: array.copy() for name, array in own.items()}
        return fit.replaced({name: state[name] for name in own})
