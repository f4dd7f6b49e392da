"""Two nodes on a quadratic, by algorithms of other frameworks in their own code, beside the algorithms as printed.

    PYTHON -m experiments.others.quadratic pfl       # SCAFFOLD; PYTHON has ``pip install 'pfl[pytorch]==0.6.0'``
    PYTHON -m experiments.others.quadratic fluke     # FedNova and FedDyn; PYTHON has ``pip install fluke-fl==0.8.1``
    python -m experiments.others.quadratic printed

Node i has the loss a_i/2 (x - t_i)^2 with a = (1, 3), t = (0, 10): the optimum of the mean is 7.5. Nodes take steps of
0.05 on all their data and begin at 0. A run ends at the optimum if the algorithm removes the drift of its nodes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

CURVATURES = (1.0, 3.0)
MINIMA = (0.0, 10.0)
LEARNING_RATE = 0.05


def walked(start: float, node: int, steps: int, correction: float = 0.0) -> float:
    """Return where a node is after some steps; the correction is added to each gradient."""
    x = start
    for _ in range(steps):
        x -= LEARNING_RATE * (CURVATURES[node] * (x - MINIMA[node]) + correction)
    return x


def printed_scaffold(rounds: int, steps: int = 5) -> list[float]:
    """Return the server's state after each round of SCAFFOLD, option II (Karimireddy et al. 2020, algorithm 1)."""
    x, c, variates = 0.0, 0.0, [0.0, 0.0]
    states = []
    for _ in range(rounds):
        ends = [walked(x, node, steps, c - variates[node]) for node in (0, 1)]
        new = [variates[node] - c + (x - ends[node]) / (steps * LEARNING_RATE) for node in (0, 1)]
        c += sum(after - before for after, before in zip(new, variates, strict=True)) / 2
        x, variates = sum(ends) / 2, new
        states.append(x)
    return states


def printed_fednova(rounds: int, steps: tuple[int, int] = (2, 10)) -> list[float]:
    """Return the server's state after each round of FedNova (Wang et al. 2020, eq. 7) with equal weights."""
    x, states = 0.0, []
    for _ in range(rounds):
        changes = [(x - walked(x, node, steps[node])) / steps[node] for node in (0, 1)]
        x -= sum(steps) / 2 * sum(changes) / 2
        states.append(x)
    return states


def printed_feddyn(rounds: int, steps: int = 50, alpha: float = 0.1) -> list[float]:
    """Return the server's state after each round of FedDyn (Acar et al. 2021, algorithm 1)."""
    x, h, gradients, states = 0.0, 0.0, [0.0, 0.0], []
    for _ in range(rounds):
        ends = []
        for node in (0, 1):
            y = x
            for _ in range(steps):
                gradient = CURVATURES[node] * (y - MINIMA[node]) - gradients[node] + alpha * (y - x)
                y -= LEARNING_RATE * gradient
            gradients[node] -= alpha * (y - x)
            ends.append(y)
        h -= alpha * sum(end - x for end in ends) / 2
        x = sum(ends) / 2 - h / alpha
        states.append(x)
    return states


def pfl_scaffold(rounds: int, steps: int = 5, *, uses_gradients: bool = False) -> list[float]:
    """Return the server's state after each round of `pfl.algorithm.scaffold.SCAFFOLD`, option II, or I by gradients."""
    import torch
    from pfl.algorithm.scaffold import SCAFFOLD, SCAFFOLDParams
    from pfl.common_types import Population
    from pfl.context import CentralContext
    from pfl.data.dataset import Dataset
    from pfl.data.user_state import InMemoryUserStateStorage
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    class Quadratic(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(1))

        def loss(self, a: Any, t: Any, is_training: bool = True) -> Any:
            return (0.5 * a * (self.w - t) ** 2).mean()

        def metrics(self, a: Any, t: Any) -> dict[str, Any]:
            return {}

    module = Quadratic()
    model = PyTorchModel(
        module,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(module.parameters(), 1.0),
    )
    settings = SCAFFOLDParams(
        central_num_iterations=rounds,
        evaluation_frequency=10**9,
        train_cohort_size=2,
        val_cohort_size=None,
        population=2,
        use_gradient_as_control_variate=uses_gradients,
        user_state_storage=InMemoryUserStateStorage(),
    )
    training = NNTrainHyperParams(local_num_epochs=steps, local_learning_rate=LEARNING_RATE, local_batch_size=None)
    algorithm = SCAFFOLD()
    algorithm.get_next_central_contexts(model, 0, settings, training, None)
    nodes = [
        Dataset(raw_data=[torch.tensor([a]), torch.tensor([t])], user_id=str(node))
        for node, (a, t) in enumerate(zip(CURVATURES, MINIMA, strict=True))
    ]
    states = []
    for number in range(rounds):
        context = CentralContext(
            current_central_iteration=number,
            do_evaluation=False,
            cohort_size=2,
            population=Population.TRAIN,
            model_train_params=training,
            model_eval_params=None,
            algorithm_params=settings,
            seed=1,
        )
        reports = []  # copies, as the next node's fit is made in the same memory
        for node in nodes:
            report, _ = algorithm.simulate_one_user(model, node, context)
            reports.append(report.apply_elementwise(lambda array: array.clone()))
        model, _ = algorithm.process_aggregated_statistics(context, Metrics(), model, reports[0] + reports[1])
        states.append(module.w.item())
    return states


def fluke_fednova(rounds: int, steps: tuple[int, int] = (2, 10)) -> list[float]:
    """Return the state after each call of `fluke.algorithms.fednova.FedNovaServer.aggregate`, with equal weights."""
    from fluke.algorithms.fednova import FedNovaServer

    class Server(FedNovaServer):  # type: ignore[misc]
        channel = SimpleNamespace(receive=lambda _, node, __: SimpleNamespace(payload=float(steps[node])))

        def _get_client_weights(self, _: Any) -> list[float]:
            return [0.5, 0.5]

    server = object.__new__(Server)
    server.__dict__.update(model=_scalar(0.0), hyper_params=SimpleNamespace(lr=1.0))
    states = []
    for _ in range(rounds):
        x = server.model.w.item()
        server.aggregate(
            [SimpleNamespace(index=node) for node in (0, 1)],
            [_scalar(walked(x, node, steps[node])) for node in (0, 1)],
        )
        states.append(server.model.w.item())
    return states


def fluke_feddyn(rounds: int, steps: int = 50, alpha: float = 0.1) -> list[float]:
    """Return the mean of the nodes' models and of their ``prev_grads``, after fits of `fluke`'s ``FedDynClient``."""
    import torch
    from fluke.algorithms.feddyn import FedDynClient

    class Client(FedDynClient):  # type: ignore[misc]
        model: Any = None
        optimizer = scheduler = None
        device = "cpu"

        def _clip_grads(self, model: Any) -> None:
            """Clip nothing."""

    def optimizer(model: Any, weight_decay: float = 0.0) -> Any:
        made = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, weight_decay=weight_decay)
        return made, torch.optim.lr_scheduler.ConstantLR(made, 1.0)

    def loss_of(node: int) -> Any:
        return lambda outputs, _: (0.5 * CURVATURES[node] * (outputs - MINIMA[node]) ** 2).mean()

    clients = []
    for node in (0, 1):
        client = object.__new__(Client)
        settings = SimpleNamespace(local_epochs=steps, alpha=alpha, loss_fn=loss_of(node))
        client.__dict__.update(
            hyper_params=settings, model=_scalar(0.0), device="cpu", optimizer=None, scheduler=None, weight=1.0,
            weight_decay=0, _optimizer_cfg=optimizer, prev_grads=torch.zeros(1),
            train_set=[(torch.zeros(1, 1), torch.zeros(1, 1))],
        )  # fmt: skip
        clients.append(client)
    x, states = 0.0, []
    for _ in range(rounds):
        for client in clients:
            with torch.no_grad():
                client.model.w.fill_(x)
            client.fit()
        x = sum(client.model.w.item() + client.prev_grads.item() for client in clients) / 2
        states.append(x)
    return states


def _scalar(value: float) -> Any:
    """Return a module of one parameter ``w``, whose output is its value for each example."""
    import torch

    class Scalar(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.tensor([value]))

        def forward(self, examples: Any) -> Any:
            return self.w.expand(len(examples), 1)

    return Scalar()


RUNS: dict[str, dict[str, Callable[[int], list[float]]]] = {
    "printed": {"SCAFFOLD": printed_scaffold, "FedNova": printed_fednova, "FedDyn": printed_feddyn},
    "pfl": {"SCAFFOLD": pfl_scaffold, "SCAFFOLD, option I": lambda rounds: pfl_scaffold(rounds, uses_gradients=True)},
    "fluke": {"FedNova": fluke_fednova, "FedDyn": fluke_feddyn},
}


def main() -> None:
    """Print the states after some rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("framework", choices=RUNS)
    for name, run in RUNS[parser.parse_args().framework].items():
        states = run(200)
        print(name, *(f"{number}: {states[number - 1]:.6g}" for number in (1, 2, 5, 10, 12, 20, 60, 200)), sep="  ")


if __name__ == "__main__":
    main()
