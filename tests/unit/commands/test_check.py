"""`fedlearn check`: names the laws of a class, and which of them fails."""

import re
from dataclasses import replace

import pytest

from client.learners.sgd import SGD
from fedlearn.algorithms.scaffold import Scaffold
from fedlearn.cli import main
from strategies.fedavg import FedAvg


class Half(FedAvg):
    """Goes half the way, and claims to be FedAvg."""

    algorithm, laws = "fedavg", ("walk",)

    def next_state(self, turn):
        step = super().next_state(turn)
        return type(step)({name: (before + step.state[name]) / 2 for name, before in turn.state.items()})


class OtherWeights(Scaffold):
    """Averages the changes of control variates as if all nodes weighed one, as the paper's nodes do."""

    def answers(self, state):
        return {name: replace(plan, uniform=True) for name, plan in super().answers(state).items()}


class Nobody(FedAvg):
    laws = ()


class Claims(FedAvg):
    algorithm, laws = "fedavg", ("walk", "gravity")


class KeepsNothing(SGD):
    """Meant to be Ditto's learner."""

    algorithm = "ditto"


class Walker:
    algorithm, laws = "scaffold", ("walk",)

    def walk(self, problem):
        return [float("nan")] * problem.rounds


@pytest.fixture
def checked(capsys):
    def checked(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["check", *arguments])
        said = capsys.readouterr()
        return end.value.code, said.out, said.err

    return checked


@pytest.mark.long
def test_an_algorithm_of_the_table_keeps_its_laws(checked):
    code, out, _ = checked("scaffold")
    assert code == 0
    assert len(re.findall("scaffold +holds", out)) == 7


@pytest.mark.long
def test_control_variates_with_other_weights_than_states_are_named(checked):
    code, out, _ = checked(f"{__name__}:OtherWeights", "--as", "scaffold")
    assert code == 1
    (failed,) = re.findall("FAILS .*", out)
    assert "optimum, unequal sizes: after 60 rounds x is 7.5, not 9.375: control variates are averaged with" in failed


def test_a_class_from_outside_fails_by_name(checked):
    code, out, err = checked(f"{__name__}:Half")
    assert code == 1
    assert "FAILS walk: x after round 1 is 1.39074, not 2.78147" in out
    assert err.count("\n") == 1


@pytest.mark.long
def test_a_learner_alone_is_checked_by_the_models_that_its_nodes_use(checked):
    code, out, _ = checked(f"{__name__}:KeepsNothing")
    assert code == 1
    assert "FAILS walk: the loss of client 0's own model is" in out


def test_a_class_that_walks_by_itself_is_no_number(checked):
    code, out, _ = checked(f"{__name__}:Walker")
    assert code == 1
    assert "it diverges, to nan" in out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (f"{__name__}:Nobody", "no laws are known of it: say by --as which algorithm"),
        (f"{__name__}:Claims", "it claims the law 'gravity'"),
        ("median", "no laws are known of it"),
        ("scafold", "scafold"),
        (f"{__name__}:Absent", "Absent"),
    ],
)
def test_what_cannot_be_checked_is_one_line(checked, name, said):
    code, _, err = checked(name)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.long
def test_as_says_what_a_class_is_to_be(checked):
    code, out, _ = checked(f"{__name__}:Nobody", "--as", "fedavg")
    assert code == 0, out
